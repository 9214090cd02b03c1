import CloakroomCore
import CloakroomIdentity
import TestSupport
import Testing

@Suite("The rate limit of sign-ins")
struct ThrottledSignInTests {
    private let now = AccountControllerFixture.now
    private let accountHash = AccountName(email: "jo@example.com").hash(under: Upstreams.accountKey)

    private func subject(
        _ kind: TokenClientError.Kind? = .rejected, isThrottled: Bool = true, signInsPerAddress: Int = 100
    ) -> AccountControllerFixture {
        let subject = AccountControllerFixture(isThrottled: isThrottled, signInsPerAddress: signInsPerAddress)
        if let kind { subject.client.response(.failure(TokenClientError(kind, in: .signIn))) }
        return subject
    }

    private func attempts(_ subject: AccountControllerFixture) -> Int {
        subject.journal.all.count { $0.hasPrefix("signIn") }
    }

    @Test("responds with 429 and Retry-After after five failures, and sends nothing upstream any more")
    func throttles() async {
        let subject = subject()
        for _ in 0..<5 { await expect(subject.signIn().status, equals: 401) }
        let response = await subject.signIn()
        expect(response, equals: AccountResponse(Problem(.throttled, retryAfter: 1)))
        expect(attempts(subject), equals: 5)
        expect(
            subject.observer.all.last, equals: .signIn(outcome: .throttled, accountHash: accountHash, duration: .zero))
        await expect(subject.signIn(at: now + .seconds(1)).status, equals: 401)
        await expect(subject.signIn(at: now + .seconds(1)).problem?.retryAfter, equals: 2)
        await expect(subject.signIn(at: now + .milliseconds(1_500)).problem?.retryAfter, equals: 2)
        await expect(subject.signIn(at: now + .milliseconds(2_001)).problem?.retryAfter, equals: 1)
        expect(attempts(subject), equals: 6)
    }

    @Test("applies to correct credentials too, with the configured sentence, and keeps the presented session")
    func rightPassword() async throws {
        let subject = AccountControllerFixture(messages: [.throttled: "Slow down."])
        let (ticket, _) = try await subject.session()
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        for _ in 0..<5 { _ = await subject.signIn() }
        subject.client.response(.success(AccountControllerFixture.signedIn("1")))
        let response = await subject.signIn(ticket: ticket)
        expect(response.problem, equals: Problem(.throttled, detail: "Slow down.", retryAfter: 1))
        expect(empty: response.fields)
        await expect(subject.whoAmI(ticket).status, equals: 200)
    }

    @Test("Rule 35: signing in to one's own account does not reset the failures of a name that differs in an accent")
    func ownAccount() async {
        let subject = subject()
        for _ in 0..<4 { await expect(subject.signIn(email: "j\u{f6}@example.com").status, equals: 401) }
        subject.client.response(.success(AccountControllerFixture.signedIn("1")))
        for own in ["j\u{f3}@example.com", "jo@example.com"] {
            await expect(subject.signIn(email: own).status, equals: 200)
        }
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        await expect(subject.signIn(email: "j\u{f2}@example.com").status, equals: 401)
        await expect(subject.signIn(email: "j\u{f4}@example.com").status, equals: 429)
    }

    @Test(
        "Rule 35: signing in to one's own account does not reset the failures of a look-alike",
        arguments: [("admin@a.b", "adm\u{131}n@a.b"), ("stra\u{df}e@a.b", "strasse@a.b"), ("jo@a.b", "\u{ff4a}o@a.b")])
    func lookAlike(victim: String, own: String) async {
        let subject = subject()
        var tried = 0
        for _ in 0..<20 {
            subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
            if await subject.signIn(email: victim).status == 401 { tried += 1 }
            subject.client.response(.success(AccountControllerFixture.signedIn("1")))
            _ = await subject.signIn(email: own)
        }
        expect(tried, equals: 5)
    }

    @Test("blocks an address that tries many accounts after thirty attempts")
    func spraying() async {
        let subject = subject()
        for number in 0..<30 { await expect(subject.signIn(email: "jo\(number)@example.com").status, equals: 401) }
        let response = await subject.signIn(email: "jo30@example.com", at: now + .seconds(60))
        expect(response.problem, equals: Problem(.throttled, retryAfter: 540))
        await expect(subject.signIn(email: "jo30@example.com", from: "192.0.2.2").status, equals: 401)
        await expect(subject.signIn(email: "jo30@example.com", at: now + .seconds(600)).status, equals: 401)
    }

    /// An address in one of the /64s of a /48.
    private func address(_ index: Int) -> String { "2001:db8:1:\(String(index, radix: 16))::1" }

    @Test("Rule 32: a /48 of IPv6 has 16 times the failures of an address")
    func failuresOfNetwork() async {
        let subject = subject()
        for index in 0..<480 {
            await expect(subject.signIn(email: "jo\(index)@example.com", from: address(index / 30)).status, equals: 401)
        }
        let rejected = await subject.signIn(email: "other@example.com", from: address(16))
        expect(rejected.problem, equals: Problem(.throttled, retryAfter: 600))
        expect(attempts(subject), equals: 480)
        await expect(subject.signIn(email: "other@example.com", from: "2001:db8:2::1").status, equals: 401)
        let later = now + .seconds(600)
        await expect(subject.signIn(email: "other@example.com", from: address(16), at: later).status, equals: 401)
    }

    @Test("Rule 32: signing in with the correct password is limited for a /48 of IPv6: to 16 times that of an address")
    func successesOfNetwork() async {
        let subject = subject(nil, signInsPerAddress: 1)
        for index in 0..<16 {
            await expect(subject.signIn(email: "jo\(index)@example.com", from: address(index)).status, equals: 200)
        }
        await expect(subject.signIn(email: "other@example.com", from: address(16)).status, equals: 429)
        await expect(subject.signIn(email: "other@example.com", from: "2001:db8:2::1").status, equals: 200)
    }

    @Test("A success resets the failures of the account from this address, and not the failures of the address")
    func success() async {
        let subject = subject()
        for number in 0..<4 { _ = await subject.signIn(email: "jo\(number)@example.com") }
        for _ in 0..<4 { _ = await subject.signIn() }
        subject.client.response(.success(AccountControllerFixture.signedIn("1")))
        await expect(subject.signIn().status, equals: 200)
        let states = subject.store.throttleStates
        expect(states.filter { $0.key.scope == .accountAndAddress }.count, equals: 4)
        expect(states.first { $0.key.scope == .address }?.value.count, equals: 8)
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        for _ in 0..<5 { await expect(subject.signIn().status, equals: 401) }
        await expect(subject.signIn().status, equals: 429)
    }

    @Test("Signing in all day causes no delay up to 20 times in ten minutes")
    func successes() async {
        let subject = subject(nil)
        for number in 0..<500 {
            await expect(subject.signIn(at: now + .seconds(30 * (Int64(number) + 1))).status, equals: 200)
        }
        expect(subject.store.throttleStates.keys.allSatisfy { [.attempts, .attemptsOfAccount].contains($0.scope) })
    }

    @Test("Rule 32: signing in with the correct password is limited for an account from one address")
    func successesOfAccount() async {
        let subject = subject(nil)
        for _ in 0..<20 { await expect(subject.signIn().status, equals: 200) }
        await expect(subject.signIn(at: now + .seconds(60)).problem, equals: Problem(.throttled, retryAfter: 540))
        expect(attempts(subject), equals: 20)
        await expect(subject.signIn(from: "192.0.2.2").status, equals: 200)
        await expect(subject.signIn(email: "al@example.com").status, equals: 200)
        await expect(subject.signIn(at: now + .seconds(600)).status, equals: 200)
    }

    @Test("Rule 32: signing in with the correct password is limited for an address", arguments: [100, 7, 1])
    func successesOfAddress(limit: Int) async {
        let subject = subject(nil, signInsPerAddress: limit)
        for number in 0..<limit { await expect(subject.signIn(email: "jo\(number)@example.com").status, equals: 200) }
        let rejected = await subject.signIn(email: "other@example.com", at: now + .seconds(1))
        expect(rejected.problem, equals: Problem(.throttled, retryAfter: 599))
        expect(attempts(subject), equals: limit)
        await expect(subject.signIn(email: "other@example.com", from: "192.0.2.2").status, equals: 200)
        await expect(subject.signIn(email: "other@example.com", at: now + .seconds(600)).status, equals: 200)
    }

    @Test("A configuration without a limit on sign-ins applies none, and still limits failures")
    func unbounded() async {
        let subject = subject(nil, signInsPerAddress: 0)
        for _ in 0..<300 { await expect(subject.signIn().status, equals: 200) }
        expect(empty: subject.store.throttleStates)
        subject.client.response(.failure(TokenClientError(.rejected, in: .signIn)))
        for _ in 0..<5 { await expect(subject.signIn().status, equals: 401) }
        await expect(subject.signIn().status, equals: 429)
    }

    @Test(
        "Rule 32: each result but success counts as an attempt, unless the upstream was unreachable or failed",
        arguments: [.invalidResponse, .busy] + IdentityMisconfiguration.allCases.map { .misconfigured($0) }
            as [TokenClientError.Kind],
        [TokenClientError.Operation.signIn, .user])
    func failuresCount(kind: TokenClientError.Kind, call: TokenClientError.Operation) async {
        let subject = subject(nil)
        subject.client.response(.failure(TokenClientError(kind, in: call)))
        for _ in 0..<5 { await expect(subject.signIn().status, equals: 502) }
        await expect(subject.signIn().status, equals: 429)
        expect(attempts(subject), equals: 5)
    }

    @Test(
        "Rule 32: an unreachable or failing upstream uses up no attempt, not even during long delays",
        arguments: [TokenClientError.Kind.unreachable, .timedOut])
    func noVerdict(kind: TokenClientError.Kind) async {
        let subject = subject()
        var time = now
        for _ in 0..<5 { _ = await subject.signIn(at: time) }
        time = time + .seconds(1)
        _ = await subject.signIn(at: time)
        time = time + .seconds(2)
        let before = subject.store.throttleStates
        subject.client.response(.failure(TokenClientError(kind, in: .signIn, isUnjudged: true)))
        for _ in 0..<50 { #expect(await subject.signIn(at: time).status >= 500) }
        expect(subject.store.throttleStates, equals: before)
    }

    @Test(
        "Rule 32: credentials that were sent and got no response count as an attempt",
        arguments: [TokenClientError.Kind.unreachable, .timedOut])
    func unanswered(kind: TokenClientError.Kind) async {
        let subject = subject(kind)
        for _ in 0..<5 { #expect(await subject.signIn().status >= 500) }
        await expect(subject.signIn().status, equals: 429)
        expect(attempts(subject), equals: 5)
    }

    @Test("Invalid credentials are not counted: no request was sent")
    func invalid() async {
        let subject = subject()
        for _ in 0..<50 { await expect(subject.signIn("{}").status, equals: 422) }
        expect(empty: subject.store.throttleStates)
    }

    @Test("An unavailable store lets no sign-in through: 503")
    func storeDown() async {
        let subject = subject(nil)
        subject.store.fail(.throttle, .unavailable)
        await expect(subject.signIn().problem, equals: Problem(.storeUnavailable, retryAfter: 5))
        expect(attempts(subject), equals: 0)
        expect(subject.observer.all, equals: [.signIn(outcome: .storeError, accountHash: accountHash, duration: .zero)])
        subject.store.recover(.throttle)
        await expect(subject.signIn().status, equals: 200)
    }

    @Test("A configuration without rate limiting counts nothing and uses no store")
    func off() async {
        let subject = subject(isThrottled: false)
        subject.store.fail(.throttle, .unavailable)
        for _ in 0..<50 { await expect(subject.signIn().status, equals: 401) }
        expect(attempts(subject), equals: 50)
    }

    @Test("Rule 22: the store gets hashes and their lifetime, never an account or an address")
    func stored() async {
        let subject = subject()
        _ = await subject.signIn()
        let kept = String(reflecting: subject.store.throttleStates)
        expect(!kept.contains("example.com") && !kept.contains("192.0.2.1") && !kept.contains("canary"))
        expect(
            subject.store.throttleLifetimes,
            equals: [
                .seconds(120), .seconds(600), .seconds(3_600), .seconds(600), .seconds(600),
            ])
    }
}
