import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The endpoint that binds a session to a device")
struct DeviceEndpointTests {
    private typealias Fixture = AccountControllerFixture
    private static let now = Fixture.now.wallTime
    private let subject: Fixture

    init() { subject = Self.fixture() }

    private static func fixture(
        _ mode: DeviceConfiguration.Mode = .auto, sameSite: CookieConfiguration.SameSite = .strict,
        store: ScriptedStore? = nil
    ) -> Fixture {
        var device = DeviceConfiguration()
        device.mode = mode
        return Fixture(cookie: CookieConfiguration(sameSite: sameSite), device: device, store: store)
    }

    private static func after(_ seconds: Int64) -> WallTime { now + .seconds(seconds) }

    private func signedIn(_ subject: Fixture? = nil) async throws -> DeviceClient {
        var client = try DeviceClient()
        client.take(await (subject ?? self.subject).signIn(), at: Self.now)
        return client
    }

    /// A client that is signed in and has registered its key.
    private func bound() async throws -> DeviceClient {
        var client = try await signedIn()
        let challenge = try require(client.challenge)
        let request = client.refresh(try client.signed(challenge), at: Self.now)
        client.take(await subject.endpoints.respond(request), at: Self.now)
        expect(client.sessionID != nil && client.proof != nil)
        return client
    }

    private func send(
        _ client: inout DeviceClient, _ token: [UInt8]?, at now: WallTime, to subject: Fixture? = nil
    ) async -> AccountResponse {
        let response = await (subject ?? self.subject).endpoints.respond(client.refresh(token, at: now))
        client.take(response, at: now)
        return response
    }

    /// Refreshes with the last challenge.
    private func refresh(
        _ client: inout DeviceClient, at now: WallTime, to subject: Fixture? = nil
    ) async throws -> Int {
        let token = try client.signed(try require(client.challenge))
        return await send(&client, token, at: now, to: subject).status
    }

    private func session(_ client: DeviceClient) throws -> Session {
        let ticket = try require(client.ticket)
        return try require(subject.store.active(ticket, now: Fixture.now))
    }

    @Test("Rule 138: the mode of an app decides about its sessions, and about no others")
    func modeOfApp() async throws {
        var (device, app) = (DeviceConfiguration(), AppConfiguration(name: "shop"))
        (device.isUsedByApps, app.device) = (true, .required)
        let subject = Fixture(device: device, apps: [app])
        let plain = await subject.signIn()
        let bound = await subject.signIn(#"{"email":"jo@example.com","password":"canary-password","app":"shop"}"#)
        expect(subject.observer.origins.map(\.app), equals: [nil, "shop"])
        let offer = "Secure-Session-Registration"
        expect(plain.values(of: offer).isEmpty && bound.values(of: offer).count == 1)
        for (seconds, status) in [(120, 200), (121, 401)] as [(Int64, Int)] {
            let later = Fixture.now + .seconds(seconds)
            await expect(subject.whoAmI(plain.ticket, at: later).status, equals: 200)
            let response = await subject.whoAmI(bound.ticket, at: later)
            expect(response.status == status && response.problem?.reason == (status == 200 ? nil : .unproven))
        }
    }

    @Test("Rule 115: a sign-in offers the binding, and the key is registered with its challenge")
    func registers() async throws {
        var client = try await signedIn()
        let challenge = try require(client.challenge)
        let response = await send(&client, try client.signed(challenge), at: Self.after(5))
        expect(response.status, equals: 200)
        let session = try session(client)
        expect(session.device?.boundAt == Self.after(5) && session.device?.key.count == 64 && session.version == 2)
        let paths = ["login", "callback", "page", "logout"].map { #"{"type":"exclude","path":"/auth/\#($0)"}"# }
        let attributes = "Path=/; HttpOnly; Secure; SameSite=Strict"
        expect(
            response.json,
            equals:
                #"{"session_identifier":"\#(session.id)","refresh_url":"/auth/device","scope":{"include_site":false,"#
                + #""scope_specification":[\#(paths.joined(separator: ","))]},"credentials":[{"type":"cookie","#
                + #""name":"__Host-cloakroom-bound","attributes":"\#(attributes)"}]}"#)
        let cookie = try require(response.values(of: "Set-Cookie").first)
        expect(cookie.hasPrefix("__Host-cloakroom-bound=") && cookie.hasSuffix("; \(attributes); Max-Age=600"))
        expect(
            response.values(of: "Secure-Session-Challenge").first?.hasSuffix("\";id=\"\(session.id)\""), equals: true)
        // A lost response: the same key again.
        client.sessionID = nil
        await expect(send(&client, try client.signed(challenge), at: Self.after(9)).status, equals: 200)
        try expect(self.session(client).device, equals: session.device)
        await expect(
            subject.endpoints.respond(client.request(.currentSession, at: Self.after(300))).status, equals: 200)
        expect(subject.observer.all.contains(.deviceProof(.bound, session.id, reason: nil)))
        expect(subject.observer.all.contains(.deviceProof(.repeated, session.id, reason: nil)))
        // All after the sign-in.
        expect(
            subject.observer.origins.map(\.isBound),
            equals: [false] + subject.observer.all.dropFirst().map { _ in true })
    }

    @Test("Rule 115: a thief with the ticket registers no key: not without the challenge, not late, not a second one")
    func thiefRegistersNothing() async throws {
        let owner = try await signedIn()
        let challenge = try require(owner.challenge)
        let id = try session(owner).id
        let devices = try require(subject.devices)
        let key = try session(owner).key
        let other = try await require(signedIn().challenge)
        func attempt(_ token: [UInt8]?, _ seconds: Int64, _ reason: DeviceRejection?) async throws {
            var thief = try DeviceClient()
            (thief.ticket, thief.peer) = (owner.ticket, "192.0.2.\(seconds % 200)")
            let response = await send(&thief, token, at: Self.after(seconds))
            expect(response.problem?.code == .deviceRequired && response.fields.isEmpty, "\(seconds)")
            expect(subject.observer.all.last, equals: .deviceProof(.rejected, id, reason: reason), "\(seconds)")
            expect(thief.proof == nil)
        }
        let thief = try DeviceClient()
        try await attempt(nil, 1, .malformed)
        let refresh = try require(devices.challenge(for: key, now: Self.now))
        try await attempt(try thief.signed(refresh), 2, .invalidChallenge)
        try await attempt(try thief.signed(other), 3, .invalidChallenge)
        try await attempt(try thief.signed(challenge, by: owner.key), 4, .invalidSignature)
        try await attempt(try owner.key.token("{}", header: #"{"typ":"dbsc+jwt","alg":"ES256"}"#), 5, .malformed)
        try await attempt(
            try owner.key.token(#"{"jti":"\#(challenge)"}"#, header: #"{"typ":"dbsc+jwt","alg":"ES256"}"#), 6,
            .invalidKey)
        try await attempt(try owner.signed(challenge), 121, .staleChallenge)
        try expect(session(owner).device, equals: nil)
        await expect(subject.endpoints.respond(owner.request(.currentSession, at: Self.after(130))).status, equals: 200)
        let bound = try await bound()
        let boundID = try session(bound).id
        var second = try DeviceClient()
        (second.ticket, second.peer) = (bound.ticket, "192.0.2.250")
        await expect(send(&second, try second.signed(challenge), at: Self.after(1)).status, equals: 403)
        expect(subject.observer.all.last, equals: .deviceProof(.rejected, boundID, reason: .otherKey))
        expect(second.proof == nil)
    }

    @Test("Rule 115: without a cookie the challenge finds the session, and gives only the right to register a key")
    func withoutCookies() async throws {
        // The sign-in is that of a document.
        let response = await subject.signIn(
            metadata: FetchMetadata(isGET: false, mode: "navigate", destination: "document"))
        var owner = try DeviceClient()
        owner.take(response, at: Self.now)
        let (challenge, ticket) = (try require(owner.challenge), try require(owner.ticket))
        let field = try require(response.values(of: "Secure-Session-Registration").first)
        expect(field, equals: #"(ES256);path="/auth/device";challenge="\#(challenge)""#)
        expect(field.utf8.count <= 1_024 && !field.contains(ticket.cookieValue))
        let other = try await require(signedIn().ticket)
        let devices = try require(subject.devices)
        let key = try session(owner).key
        let refresh = try require(devices.challenge(for: key, now: Self.now))
        let future = try require(devices.offer(for: ticket, now: Self.after(40)))
        var generator = SystemRandomNumberGenerator()
        let unknown = try require(devices.offer(for: SessionTicket(using: &generator), now: Self.now))
        func attempt(
            _ text: String?, _ seconds: Int64, _ tickets: [SessionTicket] = [], id: String? = nil
        ) async throws -> AccountResponse {
            var client = owner
            (client.ticket, client.peer) = (nil, "192.0.2.\(seconds)")
            let token = try text.map { try client.signed($0) }
            client.sessionID = id
            var request = client.refresh(token, at: Self.after(seconds))
            (request.endingTickets, request.ticket) = (tickets, tickets.count == 1 ? tickets[0] : nil)
            return await subject.endpoints.respond(request)
        }
        let id = try session(owner).id
        for (index, text) in [nil, "A", refresh, future, unknown, "\(challenge)A"].enumerated() {
            let response = try await attempt(text, Int64(index + 1))
            expect(response.status == 401 && response.fields.isEmpty, "row \(index)")
        }
        try await expect(attempt(challenge, 121).problem?.reason, equals: .noSession)
        try await expect(attempt(challenge, 10, id: "\(id)").problem?.reason, equals: .noSession)
        // A cookie has to be of the same session.
        try await expect(attempt(challenge, 11, [other]).problem?.code, equals: .deviceRequired)
        try await expect(attempt(challenge, 12, [ticket, other]).problem?.reason, equals: .noSession)
        try expect(session(owner).device, equals: nil)

        let registered = try await attempt(challenge, 60)
        expect(registered.status == 200 && registered.ticket == nil)
        let cookies = registered.values(of: "Set-Cookie")
        expect(cookies.count == 1 && cookies.first?.hasPrefix("__Host-cloakroom-bound=") == true)
        expect(!registered.everything.contains(ticket.cookieValue))
        let saved = try session(owner)
        expect(saved.device != nil && saved.lastUsedAt == Fixture.now)
        // No second key, and the bound cookie alone is nothing.
        var thief = try DeviceClient()
        let second = await send(&thief, try thief.signed(challenge), at: Self.after(61))
        expect(second.problem?.code == .deviceRequired && second.fields.isEmpty)
        thief.take(registered, at: Self.after(60))
        expect(thief.proof != nil)
        let use = await subject.endpoints.respond(thief.request(.currentSession, at: Self.after(62)))
        expect(use.problem?.reason, equals: .noSession)
        owner.take(registered, at: Self.after(60))
        await expect(subject.endpoints.respond(owner.request(.currentSession, at: Self.after(500))).status, equals: 200)
        try await expect(self.refresh(&owner, at: Self.after(600)), equals: 204)
        // The session has ended.
        _ = await subject.signOut(ticket)
        try await expect(attempt(challenge, 100).status, equals: 401)
    }

    @Test("Rule 117: a registration that is sent again gives access for two lifetimes after the first one")
    func repeatedRegistration() async throws {
        var device = DeviceConfiguration()
        (device.mode, device.lifetime, device.offer) = (.auto, .seconds(10), .seconds(600))
        let subject = Fixture(cookie: CookieConfiguration(), device: device)
        var client = try await signedIn(subject)
        let token = try client.signed(try require(client.challenge))
        for (seconds, maxAge) in [(5, 10), (12, 10), (20, 5), (300, 0)] as [(Int64, Int)] {
            client.sessionID = nil
            let response = await send(&client, token, at: Self.after(seconds), to: subject)
            expect(response.status, equals: 200)
            expect(
                response.values(of: "Set-Cookie").first?.hasSuffix("; Max-Age=\(maxAge)"), equals: true, "\(seconds)")
        }
        let request = client.request(.currentSession, at: Self.after(300))
        await expect(subject.endpoints.respond(request).problem?.reason, equals: .unproven)
        try await expect(refresh(&client, at: Self.after(301), to: subject), equals: 204)
    }

    @Test("Rule 117: a refresh needs the session, a recent challenge of it, and a signature of its key")
    func refreshes() async throws {
        var client = try await bound()
        let (first, id) = (try require(client.challenge), try session(client).id)
        try await expect(refresh(&client, at: Self.after(480)), equals: 204)
        expect(client.proof?.end, equals: Self.after(480 + 600))
        // lostResponseCostsNothing: the same signed challenge again, from two tabs and after a lost response.
        let token = try client.signed(first)
        for second in [481, 500, 600] as [Int64] {
            await expect(send(&client, token, at: Self.after(second)).status, equals: 204)
        }
        let late = await send(&client, token, at: Self.after(601))
        expect(late.problem?.code == .deviceRequired && late.values(of: "Secure-Session-Challenge").count == 1)
        try await expect(refresh(&client, at: Self.after(602)), equals: 204)
        // After a restart of the browser there is no challenge.
        let empty = await send(&client, nil, at: Self.after(610))
        expect(empty.status == 403 && subject.observer.all.last == .deviceProof(.challenged, id, reason: nil))
        expect(empty: empty.values(of: "Set-Cookie"))
        try await expect(refresh(&client, at: Self.after(611)), equals: 204)
        try expect(session(client).version, equals: 2, "a refresh writes nothing")
        client.sessionID = "0123456789abcdef"
        await expect(send(&client, token, at: Self.after(612)).status, equals: 401)
    }

    @Test("Rule 117: every invalid proof of a refresh is rejected with a challenge, and the session stays")
    func rejectedRefreshes() async throws {
        let client = try await bound()
        let (challenge, other, id) = (try require(client.challenge), try DeviceClient(), try session(client).id)
        let devices = try require(subject.devices)
        let key = try session(client).key
        let ticket = try require(client.ticket)
        let registration = try require(devices.offer(for: ticket, now: Self.now))
        let foreign = try require(devices.challenge(for: SessionKey(9, 0, 0, 0), now: Self.now))
        let future = try require(devices.challenge(for: key, now: Self.after(100)))
        let jwk = try client.key.jwk(more: "", hasAlgorithm: false)
        let rows: [([UInt8], DeviceRejection)] = [
            (Array("a.b.c".utf8), .malformed),
            (try client.signed(challenge, header: #"{"typ":"dbsc+jwt","alg":"none"}"#), .malformed),
            (try client.signed(challenge, header: #"{"typ":"dbsc+jwt","alg":"RS256"}"#), .malformed),
            (try client.signed(challenge, header: #"{"typ":"JWT","alg":"ES256"}"#), .malformed),
            (try client.signed(challenge, header: #"{"typ":"dbsc+jwt","alg":"ES256","jwk":\#(jwk)}"#), .invalidKey),
            (try client.signed(registration), .invalidChallenge), (try client.signed(foreign), .invalidChallenge),
            (try client.signed(future), .invalidChallenge), (try client.signed("A"), .invalidChallenge),
            (try client.signed(challenge, by: other.key), .invalidSignature),
        ]
        for (index, row) in rows.enumerated() {
            var thief = client
            thief.peer = "192.0.2.\(index + 10)"
            let response = await send(&thief, row.0, at: Self.after(20))
            expect(response.problem?.code, equals: .deviceRequired, "row \(index)")
            expect(response.values(of: "Secure-Session-Challenge").count, equals: 1, "row \(index)")
            expect(empty: response.values(of: "Set-Cookie"), "row \(index)")
            expect(subject.observer.all.last, equals: .deviceProof(.rejected, id, reason: row.1), "row \(index)")
        }
        var owner = client
        try await expect(refresh(&owner, at: Self.after(21)), equals: 204)
    }

    @Test("Rule 117: after five failed proofs a minute of a client none is verified; the owner's are")
    func bounded() async throws {
        var (owner, thief) = (try await bound(), try DeviceClient())
        (thief.ticket, thief.sessionID, thief.peer) = (owner.ticket, owner.sessionID, "192.0.2.66")
        let forged = try thief.signed(try require(owner.challenge))
        for _ in 0..<5 { await expect(send(&thief, forged, at: Self.after(20)).status, equals: 403) }
        for _ in 0..<50 {
            let response = await send(&thief, forged, at: Self.after(20))
            expect(response.status == 503 && response.values(of: "Secure-Session-Challenge").isEmpty)
        }
        try await expect(refresh(&owner, at: Self.after(21)), equals: 204)
        await expect(send(&thief, forged, at: Self.after(81)).status, equals: 403)
    }

    @Test("Rule 114: without the proof the account endpoints respond 401, and nothing but a sign-out ends the session")
    func unproven() async throws {
        var client = try await bound()
        var thief = client
        thief.proof = nil
        // Its first requests may be on their way while the key is registered.
        await expect(subject.endpoints.respond(thief.request(.currentSession, at: Self.after(40))).status, equals: 200)
        for endpoint in [AccountEndpoint.currentSession, .listSessions, .endOtherSessions, .endSession] {
            let response = await subject.endpoints.respond(thief.request(endpoint, at: Self.after(50)))
            expect(response.problem?.reason, equals: .unproven, "\(endpoint)")
            expect(response.values(of: "Secure-Session-Challenge").count, equals: 1)
            expect(empty: response.values(of: "Set-Cookie"))
        }
        let id = try session(client).id
        expect(subject.observer.all.filter { $0 == .deviceCheck(.unproven, id) }.count, equals: 4)
        try await expect(refresh(&client, at: Self.after(400)), equals: 204)
        let list = await subject.endpoints.respond(client.request(.listSessions, at: Self.after(500)))
        expect(list.json?.contains(#""bound":true"#), equals: true)
        let signOut = await subject.endpoints.respond(thief.request(.signOut, at: Self.after(500)))
        expect(signOut.status, equals: 204)
        expect(signOut.values(of: "Clear-Site-Data"), equals: [#""cache", "storage""#])
        await expect(send(&client, nil, at: Self.after(501)).status, equals: 401)
    }

    @Test("Two clients with a key each: one is bound, whatever the order")
    func race() async throws {
        let owner = try await signedIn()
        let challenge = try require(owner.challenge)
        var other = try DeviceClient()
        other.ticket = owner.ticket
        let requests = [
            owner.refresh(try owner.signed(challenge), at: Self.after(1)),
            other.refresh(try other.signed(challenge), at: Self.after(1)),
        ]
        let endpoints = subject.endpoints
        let statuses = await withTaskGroup(of: Int.self) { group in
            for request in requests { group.addTask { await endpoints.respond(request).status } }
            return await group.reduce(into: [Int]()) { $0.append($1) }
        }
        expect(statuses.sorted(), equals: [200, 403])
    }

    @Test("Without the feature the endpoint does not exist, nothing is offered, and a bound session needs no proof")
    func off() async throws {
        let bound = try await bound()
        let off = Self.fixture(.off, store: subject.store)
        await expect(off.endpoints.respond(bound.refresh(nil, at: Self.after(1))).status, equals: 404)
        await expect(empty: off.signIn().values(of: "Secure-Session-Registration"))
        var thief = bound
        thief.proof = nil
        await expect(off.endpoints.respond(thief.request(.currentSession, at: Self.after(900))).status, equals: 200)
    }

    @Test("Rule 114: with `required` a session without a key can be used for the time of the offer only")
    func required() async throws {
        let required = Self.fixture(.required)
        let client = try await signedIn(required)
        await expect(
            required.endpoints.respond(client.request(.currentSession, at: Self.after(120))).status, equals: 200)
        let late = await required.endpoints.respond(client.request(.currentSession, at: Self.after(121)))
        expect(late.problem?.reason == .unproven && late.fields.isEmpty)
        let isReported = required.observer.all.contains { if case .deviceCheck = $0 { true } else { false } }
        expect(!isReported, "a session that was never bound is not stolen")
    }
}
