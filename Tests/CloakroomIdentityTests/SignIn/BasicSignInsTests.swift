import Foundation
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("Sign-ins with Basic on routes", .serialized)
struct BasicSignInsTests {
    private let time = ManualTime()

    private func subject(
        _ fixture: AccountControllerFixture, entries: Int = 10_000, sites: Int = 1, after previous: BasicSignIns? = nil
    ) -> BasicSignIns {
        BasicSignIns(
            Array(repeating: fixture.endpoints, count: sites), BasicConfiguration(entries: entries),
            counts: previous?.counts ?? ClientCounts(), previous: previous,
            clock: { [time] in time.now }, sessionClock: { [time] in time.sessionTime })
    }

    private static func field(
        _ name: String = "jo@example.com", _ password: String = "canary-password", scheme: String = "Basic"
    ) -> Secret {
        Secret("\(scheme) \(Data("\(name):\(password)".utf8).base64EncodedString())")
    }

    private static func origin(_ peer: String = "192.0.2.1") -> AuditContext {
        AuditContext(peer: peer, requestID: "r")
    }

    private static func session(_ outcome: RefreshOutcome?) -> Session? {
        if case .active(let session)? = outcome { session } else { nil }
    }

    private static func problem(_ outcome: RefreshOutcome?) -> Problem? {
        if case .failed(let problem)? = outcome { problem } else { nil }
    }

    private func attempts(_ fixture: AccountControllerFixture) -> Int {
        fixture.journal.all.count { $0.hasPrefix("signIn") }
    }

    @Test("Rule 139: basicSignsInOnce: equal requests cause one sign-in, and nothing is stored or can be refreshed")
    func once() async throws {
        let fixture = AccountControllerFixture()
        let subject = subject(fixture, sites: 2)
        let field = Self.field()
        expect(subject.cached(field, site: 0, now: time.now) == nil)
        let keys = await withTaskGroup(of: SessionKey?.self) { group in
            for _ in 0..<1_000 {
                group.addTask { Self.session(await subject.verify(field, site: 0, from: Self.origin()))?.key }
            }
            return await group.reduce(into: Set<SessionKey?>()) { $0.insert($1) }
        }
        expect(keys.count == 1 && !keys.contains(nil))
        expect(attempts(fixture), equals: 1)
        expect(!fixture.journal.all.contains("create"))
        let session = try require(Self.session(subject.cached(field, site: 0, now: time.now)))
        expect(session.authorization, equals: Secret("Bearer canary-access-1"))
        expect(session.source == .unknown && !session.isRefreshable)
        // The case of the scheme makes no other one; a password, a name or a site does.
        expect(Self.session(subject.cached(Self.field(scheme: "bASIC"), site: 0, now: time.now)) === session)
        expect(subject.cached(Self.field("jo@example.com", "other"), site: 0, now: time.now) == nil)
        expect(subject.cached(Self.field("al@example.com"), site: 0, now: time.now) == nil)
        expect(subject.cached(field, site: 1, now: time.now) == nil)
        // Another process has another key, so that the log does not show which passwords are the same.
        let other = self.subject(fixture)
        expect(Self.session(await other.verify(field, site: 0, from: Self.origin()))?.key != session.key)
    }

    @Test("Rule 139: a sign-in is used until it was idle, for the maximum, and until its token expires")
    func ends() async throws {
        let fixture = AccountControllerFixture()
        let subject = subject(fixture)
        let field = Self.field()
        func isKnown(after duration: Duration) -> Bool {
            time.advance(by: duration)
            return Self.session(subject.cached(field, site: 0, now: time.now)) != nil
        }
        let first = try require(Self.session(await subject.verify(field, site: 0, from: Self.origin())))
        expect(first.beginRequest(limit: 1))
        for _ in 0..<2 { expect(isKnown(after: .milliseconds(299_999))) }
        expect(!isKnown(after: .seconds(300)))
        // The same password may have been changed in the meantime. The requests in flight count together (rule 63).
        let second = try require(Self.session(await subject.verify(field, site: 0, from: Self.origin())))
        expect(second !== first && !second.beginRequest(limit: 1))
        expect(attempts(fixture), equals: 2)
        for _ in 0..<14 { expect(isKnown(after: .seconds(250))) }
        expect(isKnown(after: .milliseconds(99_999)))
        expect(!isKnown(after: .milliseconds(1)))
        fixture.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        expect(Self.problem(await subject.verify(field, site: 0, from: Self.origin()))?.status, equals: 401)
        var short = AccountControllerFixture.signedIn("2")
        short.tokens.accessTokenExpiresAt = time.now + .seconds(60)
        fixture.client.response(.success(short))
        expect(Self.session(await subject.verify(field, site: 0, from: Self.origin())) != nil)
        expect(isKnown(after: .milliseconds(59_999)))
        expect(!isKnown(after: .milliseconds(1)))
        expect(attempts(fixture), equals: 4)
    }

    @Test("Rule 139: reloadKeepsSignIns: they are not repeated, unless accounts.basic or where to sign in has changed")
    func reload() async throws {
        let fixture = AccountControllerFixture()
        let first = subject(fixture)
        let field = Self.field()
        let session = try require(Self.session(await first.verify(field, site: 0, from: Self.origin())))
        let next = subject(AccountControllerFixture(), after: first)
        expect(Self.session(next.cached(field, site: 0, now: time.now)) === session)
        // Requests of the previous configuration that are in progress too.
        let late = Self.field("al@example.com")
        expect(Self.session(await first.verify(late, site: 0, from: Self.origin())) != nil)
        expect(Self.session(next.cached(late, site: 0, now: time.now)) != nil)
        for other in [subject(fixture, entries: 10, after: first), subject(fixture, sites: 2, after: first)] {
            expect(other.cached(field, site: 0, now: time.now) == nil)
        }
    }

    @Test("Rules 63 and 145: the requests and sign-ins in progress count after a reload that changes accounts.basic")
    func countsOverReloads() async throws {
        let fixture = AccountControllerFixture()
        let (first, field) = (subject(fixture), Self.field())
        let session = try require(Self.session(await first.verify(field, site: 0, from: Self.origin())))
        expect(session.beginRequest(limit: 1))
        let next = subject(fixture, entries: 10, after: first)
        let again = try require(Self.session(await next.verify(field, site: 0, from: Self.origin())))
        expect(again !== session && !again.beginRequest(limit: 1))
        while first.counts.signIns.take(RateKey(peer: "192.0.2.1")) {}
        let other = Self.field("al@example.com")
        expect(Self.problem(await next.verify(other, site: 0, from: Self.origin()))?.code, equals: .overloaded)
    }

    @Test("Rule 139: a token that the upstream rejects is replaced by another sign-in, at most every two minutes")
    func rejected() async throws {
        let fixture = AccountControllerFixture()
        let subject = subject(fixture)
        let field = Self.field()
        let first = try require(Self.session(await subject.verify(field, site: 0, from: Self.origin())))
        time.advance(by: .milliseconds(119_999))
        expect(!subject.forget(field, first, site: 0, now: time.now))
        expect(Self.session(subject.cached(field, site: 0, now: time.now)) === first)
        time.advance(by: .milliseconds(1))
        expect(subject.forget(field, first, site: 0, now: time.now))
        expect(subject.cached(field, site: 0, now: time.now) == nil)
        let second = try require(Self.session(await subject.verify(field, site: 0, from: Self.origin())))
        // Another request with the first token was rejected later: it is sent again with the second.
        expect(subject.forget(field, first, site: 0, now: time.now))
        expect(Self.session(subject.cached(field, site: 0, now: time.now)) === second)
        expect(!subject.forget(field, second, site: 0, now: time.now))
        expect(attempts(fixture), equals: 2)
    }

    @Test("Rule 139: wrong credentials are 401 and count as those of POST /auth, and then 429")
    func throttled() async throws {
        let fixture = AccountControllerFixture()
        let subject = subject(fixture)
        fixture.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        for _ in 0..<5 {
            let problem = Self.problem(await subject.verify(Self.field(), site: 0, from: Self.origin()))
            expect(problem?.code == .unauthorized && problem?.reason == .invalidCredentials)
            expect(subject.cached(Self.field(), site: 0, now: time.now) == nil)
        }
        await expect(fixture.signIn().status, equals: 429)
        fixture.client.response(.success(AccountControllerFixture.signedIn("1")))
        let problem = Self.problem(await subject.verify(Self.field(), site: 0, from: Self.origin()))
        expect(problem?.code == .throttled && problem?.retryAfter == 1)
        expect(attempts(fixture), equals: 5)
        // Another address is not delayed, and its success is kept for all.
        expect(Self.session(await subject.verify(Self.field(), site: 0, from: Self.origin("192.0.2.9"))) != nil)
    }

    @Test("Rule 139: what cannot be a name and a password is not sent upstream, and failures upstream are not kept")
    func failures() async throws {
        let fixture = AccountControllerFixture()
        let subject = subject(fixture)
        for (field, status) in [
            (Self.field("no-address"), 401), (Self.field("jo@example.com", ""), 401), (Secret("Basic bm8="), 400),
            (Secret("Basic ////"), 400),
        ] {
            let problem = Self.problem(await subject.verify(field, site: 0, from: Self.origin()))
            expect(problem?.status, equals: status)
        }
        expect(attempts(fixture), equals: 0)
        fixture.client.response(.failure(TokenClientError(.unreachable, in: .signIn, isUnjudged: true)))
        for _ in 0..<10 {
            let problem = Self.problem(await subject.verify(Self.field(), site: 0, from: Self.origin()))
            expect(problem?.code, equals: .unreachable)
        }
        expect(attempts(fixture), equals: 10)
    }

    @Test("Rule 139: kept sign-ins, and those in progress, are bounded, and those in use remain")
    func bounded() async throws {
        let fixture = AccountControllerFixture(isThrottled: false)
        let subject = subject(fixture, entries: 10)
        let used = Self.field()
        expect(Self.session(await subject.verify(used, site: 0, from: Self.origin())) != nil)
        let fields = (0..<30).map { Self.field("u\($0)@example.com") }
        for field in fields {
            expect(Self.session(await subject.verify(field, site: 0, from: Self.origin())) != nil)
            expect(Self.session(subject.cached(used, site: 0, now: time.now)) != nil)
        }
        let kept = fields.count { Self.session(subject.cached($0, site: 0, now: time.now)) != nil }
        expect((1...9).contains(kept))
        let gate = Gate()
        fixture.client.holdSignIns { await gate.passed() }
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<BasicSignIns.maxFlights {
                let origin = Self.origin("10.0.\(index / 256).\(index % 256)")
                group.addTask {
                    _ = await subject.verify(Self.field("w\(index)@example.com"), site: 0, from: origin)
                }
            }
            try? await eventually("all are in progress") {
                self.attempts(fixture) == 31 + BasicSignIns.maxFlights
            }
            let other = Self.origin("198.51.100.1")
            let problem = Self.problem(await subject.verify(Self.field("x@example.com"), site: 0, from: other))
            expect(problem?.code, equals: .overloaded)
            gate.open()
        }
        expect(Self.session(await subject.verify(Self.field("x@example.com"), site: 0, from: Self.origin())) != nil)
    }

    /// Signs in, and notes the address if it has too many sign-ins in progress.
    private static func signIn(
        _ name: String, from peer: String, _ subject: BasicSignIns, _ rejected: CallRecorder
    ) async {
        let outcome = await subject.verify(field("\(name)@example.com"), site: 0, from: origin(peer))
        if problem(outcome)?.code == .overloaded { rejected.note(peer) }
    }

    @Test("Rule 145: of the sign-ins in progress an address and a /48 have a share, and other addresses sign in")
    func shares() async {
        let fixture = AccountControllerFixture(isThrottled: false)
        let (subject, rejected, gate) = (subject(fixture), CallRecorder(), Gate())
        fixture.client.holdSignIns { await gate.passed() }
        let (count, full) = (BasicSignIns.maxFlights, ["192.0.2.1", "2001:db8::2"])
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await Self.signIn("first", from: "192.0.2.9", subject, rejected) }
            try? await eventually("it is in progress") { self.attempts(fixture) == 1 }
            for index in 1..<count {
                let peer = index % 2 == 0 ? "192.0.2.1" : "2001:db8::1"
                group.addTask { await Self.signIn("w\(index)", from: peer, subject, rejected) }
            }
            try? await eventually("each is in progress, or has failed") {
                self.attempts(fixture) + rejected.all.count == count
            }
            let held = attempts(fixture)
            #expect(held <= count * 2 / 3)
            for peer in full { group.addTask { await Self.signIn("x", from: peer, subject, rejected) } }
            try? await eventually("these addresses have too many") { rejected.all.count == count - held + full.count }
            expect(rejected.all.suffix(2).sorted(), equals: full)
            // The name and the password of one in progress, and two other addresses.
            for peer in full { group.addTask { await Self.signIn("first", from: peer, subject, rejected) } }
            for (name, peer) in [("y", "192.0.2.2"), ("z", "2001:db8:1::1")] {
                group.addTask { await Self.signIn(name, from: peer, subject, rejected) }
            }
            try? await eventually("others sign in") { self.attempts(fixture) == held + 2 }
            gate.open()
        }
        expect(attempts(fixture) + rejected.all.count, equals: count + full.count + 2)
        expect(Self.session(await subject.verify(Self.field("x@example.com"), site: 0, from: Self.origin())) != nil)
    }
}
