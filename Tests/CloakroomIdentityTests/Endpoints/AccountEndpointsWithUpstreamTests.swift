import CloakroomCore
import CloakroomIdentity
import FoundationEssentials
import MockAPI
import TestSupport
import Testing

@Suite("The accounts endpoints with the real mock API", .timeLimit(.minutes(3)))
struct AccountEndpointsWithUpstreamTests {
    private func withEndpoints<R: Sendable>(
        _ body: (RunningMockAPI, AccountEndpoints, ScriptedStore, RecordingObserver) async throws -> R
    ) async throws -> R {
        let settings = MockAPISettings(
            apiToken: Upstreams.apiToken,
            users: [MockUser(email: "jo@example.com", password: "canary-password", name: "Jo")])
        return try await MockAPI.withServer(settings) { mock in
            try await Upstreams.withClient(Upstreams.plan(port: mock.port)) { client in
                let store = ScriptedStore(Journal())
                let observer = RecordingObserver()
                let endpoints = AccountEndpoints(
                    store: store, client: client, observer: observer, session: SessionPlan(),
                    accounts: AccountsPlan(), accounts: AccountHashes(Upstreams.accountKey))
                return try await body(mock, endpoints, store, observer)
            }
        }
    }

    private func signIn(_ password: String = "canary-password") -> OwnRequest {
        let pair = Data("jo@example.com:\(password)".utf8).base64EncodedString()
        return OwnRequest(endpoint: .signIn, authorization: Secret("Basic \(pair)"), now: now)
    }

    private var now: Timestamp { Timestamp(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test("sign in, tell, sign out, and the tokens are void upstream too")
    func roundTrip() async throws {
        try await withEndpoints { mock, endpoints, _, _ in
            let signedIn = await endpoints.answer(signIn())
            #expect(signedIn.status == 200)
            let ticket = try #require(signedIn.ticket)
            let told = await endpoints.answer(OwnRequest(endpoint: .whoAmI, ticket: ticket, now: now))
            #expect(told.json == signedIn.json)
            #expect(told.json?.contains(#""email":"jo@example.com""#) == true)
            let out = await endpoints.answer(OwnRequest(endpoint: .signOut, ticket: ticket, now: now))
            #expect(out.status == 204)
            let after = await endpoints.answer(OwnRequest(endpoint: .whoAmI, ticket: ticket, now: now))
            #expect(after.problem?.reason == .revoked)
            let seen = mock.observations.snapshot()
            #expect(seen.recent.map(\.path) == ["/auth", "/user", "/auth/revoke"])
        }
    }

    @Test("Rules 18, 22: no answer has a token, a password or the API key in it; the ticket is in its cookie only")
    func canaries() async throws {
        try await withEndpoints { _, endpoints, store, observer in
            let signedIn = await endpoints.answer(signIn())
            let ticket = try #require(signedIn.ticket)
            guard case .live(let session) = store.find(ticket, now: now, slides: false) else {
                Issue.record("there is no session")
                return
            }
            let told = await endpoints.answer(OwnRequest(endpoint: .whoAmI, ticket: ticket, now: now))
            let wrong = await endpoints.answer(signIn("canary-wrong"))
            let again = await endpoints.answer(
                OwnRequest(
                    endpoint: .signIn, ticket: ticket, contentType: "application/x-www-form-urlencoded",
                    body: Secret("email=jo@example.com&password=canary-password"), now: now))
            let out = await endpoints.answer(OwnRequest(endpoint: .signOut, ticket: again.ticket, now: now))
            #expect([signedIn, told, wrong, again, out].map(\.status) == [200, 200, 401, 200, 204])

            let accessToken = String(decoding: session.tokens.authorization.bytes.dropFirst(7), as: UTF8.self)
            let refreshToken = String(decoding: session.tokens.refreshToken?.bytes ?? [], as: UTF8.self)
            let secrets = [accessToken, refreshToken, "canary", Data("canary".utf8).base64EncodedString()]
            for secret in secrets {
                try #require(!secret.isEmpty)
                for response in [signedIn, told, wrong, again, out] {
                    #expect(!response.everything.contains(secret))
                    #expect(!String(reflecting: response).contains(secret))
                }
                #expect(!String(reflecting: observer.all).contains(secret))
                #expect(!String(reflecting: session).contains(secret))
            }
            #expect(!(signedIn.json ?? "").contains(ticket.cookieValue))
            #expect(!String(reflecting: signedIn).contains(ticket.cookieValue))
            #expect(!told.everything.contains(ticket.cookieValue))
        }
    }

    /// The statuses of eight sign-ins in a row.
    private func statuses(_ port: Int, timeout: Duration) async throws -> [Int] {
        try await Upstreams.withClient(Upstreams.plan(port: port), timeout: timeout) { client in
            let endpoints = AccountEndpoints(
                store: ScriptedStore(Journal()), client: client, observer: RecordingObserver(),
                session: SessionPlan(), accounts: AccountsPlan(), accounts: AccountHashes(Upstreams.accountKey))
            var request = signIn()
            request.now = Upstreams.now
            var statuses: [Int] = []
            for _ in 0..<8 { statuses.append(await endpoints.answer(request).status) }
            return statuses
        }
    }

    @Test(
        "Rule 32: an upstream that reads a password and does not answer is asked five times in a row",
        arguments: [(ScriptedUpstream.Act.close, 502), (.reset, 502), (.silence, 504)])
    func unanswered(act: ScriptedUpstream.Act, status: Int) async throws {
        try await ScriptedUpstream.run([act]) { port, _ in
            let statuses = try await statuses(port, timeout: .milliseconds(200))
            #expect(statuses == Array(repeating: status, count: 5) + [429, 429, 429])
        }
    }

    @Test("Rule 32: an upstream that cannot be connected to makes nobody wait")
    func unconnected() async throws {
        let refusing = try await ScriptedUpstream.refusingPort()
        #expect(try await statuses(refusing, timeout: .seconds(10)) == Array(repeating: 502, count: 8))
        let deaf = try await UnansweredPort(.isDeaf)
        defer { deaf.release() }
        #expect(try await statuses(deaf.port, timeout: .milliseconds(200)) == Array(repeating: 504, count: 8))
    }

    @Test("an upstream that is gone is 502, and nobody is signed out by it")
    func upstreamGone() async throws {
        let port = try await ScriptedUpstream.refusingPort()
        try await Upstreams.withClient(Upstreams.plan(port: port)) { client in
            let store = ScriptedStore(Journal())
            let signedIn = EndpointsUnderTest.signedIn("1")
            let (ticket, _) = try await store.create(
                NewSession(user: signedIn.user, tokens: signedIn.tokens), now: now)
            let endpoints = AccountEndpoints(
                store: store, client: client, observer: RecordingObserver(), session: SessionPlan(),
                accounts: AccountsPlan(), accounts: AccountHashes(Upstreams.accountKey))
            var request = signIn()
            request.ticket = ticket
            #expect(await endpoints.answer(request).problem == Problem(.unreachable, status: 502))
            #expect(await endpoints.answer(OwnRequest(endpoint: .whoAmI, ticket: ticket, now: now)).status == 200)
        }
    }
}
