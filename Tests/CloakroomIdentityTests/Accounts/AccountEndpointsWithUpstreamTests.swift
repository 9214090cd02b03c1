import CloakroomIdentity
import FoundationEssentials
import MockAPI
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The account endpoints with the real mock API", .timeLimit(.minutes(3)))
struct AccountEndpointsWithUpstreamTests {
    private func signIn(_ password: String = "canary-password") -> AccountRequest {
        let pair = Data("jo@example.com:\(password)".utf8).base64EncodedString()
        return AccountRequest(endpoint: .signIn, authorization: Secret("Basic \(pair)"), now: now)
    }

    private var now: SessionTime { SessionTime(seconds: Int64(Date().timeIntervalSince1970)) }

    @Test("Signing in, reading the session and signing out; the tokens are then revoked upstream too")
    func roundTrip() async throws {
        try await Upstreams.withMock { mock, client in
            let endpoints = AccountControllerFixture(upstream: client).endpoints
            let signedIn = await endpoints.respond(signIn())
            #expect(signedIn.status == 200)
            let ticket = try #require(signedIn.ticket)
            let told = await endpoints.respond(AccountRequest(endpoint: .currentSession, ticket: ticket, now: now))
            #expect(told.json == signedIn.json)
            #expect(told.json?.contains(#""email":"jo@example.com""#) == true)
            let out = await endpoints.respond(AccountRequest(endpoint: .signOut, ticket: ticket, now: now))
            #expect(out.status == 204)
            let after = await endpoints.respond(AccountRequest(endpoint: .currentSession, ticket: ticket, now: now))
            #expect(after.problem?.reason == .revoked)
            let seen = mock.observations.snapshot()
            #expect(seen.recent.map(\.path) == ["/auth", "/user", "/auth/revoke"])
        }
    }

    @Test("Rules 18, 22: no response contains a token, a password or the API key; the ticket is in its cookie only")
    func canaries() async throws {
        try await Upstreams.withMock { _, client in
            let fixture = AccountControllerFixture(upstream: client)
            let endpoints = fixture.endpoints
            let signedIn = await endpoints.respond(signIn())
            let ticket = try #require(signedIn.ticket)
            let session = try #require(fixture.store.active(ticket, now: now))
            let told = await endpoints.respond(AccountRequest(endpoint: .currentSession, ticket: ticket, now: now))
            let wrong = await endpoints.respond(signIn("canary-wrong"))
            let again = await endpoints.respond(
                AccountRequest(
                    endpoint: .signIn, ticket: ticket, contentType: "application/x-www-form-urlencoded",
                    body: Secret("email=jo@example.com&password=canary-password"), now: now))
            let out = await endpoints.respond(AccountRequest(endpoint: .signOut, ticket: again.ticket, now: now))
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
                #expect(!String(reflecting: fixture.observer.all).contains(secret))
                #expect(!String(reflecting: session).contains(secret))
            }
            #expect(!(signedIn.json ?? "").contains(ticket.cookieValue))
            #expect(!String(reflecting: signedIn).contains(ticket.cookieValue))
            #expect(!told.everything.contains(ticket.cookieValue))
        }
    }

    /// The response statuses of eight consecutive sign-ins.
    private func statuses(_ port: Int, timeout: Duration) async throws -> [Int] {
        try await Upstreams.withClient(Upstreams.configuration(port: port), timeout: timeout) { client in
            let endpoints = AccountControllerFixture(upstream: client).endpoints
            var request = signIn()
            request.now = Upstreams.now.sessionTime
            var statuses: [Int] = []
            for _ in 0..<8 { statuses.append(await endpoints.respond(request).status) }
            return statuses
        }
    }

    @Test(
        "Rule 32: an upstream that reads a password and does not respond gets at most five consecutive requests",
        arguments: [(ScriptedServer.Act.close, 502), (.reset, 502), (.silence, 504)])
    func unanswered(act: ScriptedServer.Act, status: Int) async throws {
        try await ScriptedServer.run([act]) { port, _ in
            let statuses = try await statuses(port, timeout: .milliseconds(200))
            #expect(statuses == Array(repeating: status, count: 5) + [429, 429, 429])
        }
    }

    @Test("Rule 32: an upstream that cannot be connected to delays no sign-in")
    func unconnected() async throws {
        let rejecting = try await ScriptedServer.rejectingPort()
        #expect(try await statuses(rejecting, timeout: .seconds(10)) == Array(repeating: 502, count: 8))
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        #expect(try await statuses(deaf.port, timeout: .milliseconds(200)) == Array(repeating: 504, count: 8))
    }
}
