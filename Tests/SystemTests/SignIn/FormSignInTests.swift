import Foundation
import MockAPI
import TestSupport
import Testing

/// An API with names of its own, which responds 200 to everything and reports success in a member, tested through the
/// running program.
@Suite("Signing in with a form of other names", .serialized, .timeLimit(.minutes(3)))
struct FormSignInTests {
    private static let tokens = "accessToken: session.key, refreshToken: session.again"

    private static func calls(realm: String = "main", endsOn: String = "token_expired") -> [String] {
        [
            "signIn: { path: /login, credentials: form, members: { name: username, password: secret },"
                + " static: { realm: \(realm) }, success: ok, \(tokens) }",
            "refresh: { path: /login/again, credentials: form, members: { refreshToken: token }, success: ok,"
                + " endsOn: [\(endsOn)], \(tokens) }", "user: { path: /user }", "errorCode: code",
        ]
    }

    private func running(
        _ calls: [String] = calls(), clock: MockClock = MockClock(),
        _ body: (GatewayProcess, RunningMockAPI) async throws -> Void
    ) async throws {
        var settings = MockAPISettings.withTwoUsers
        settings.now = { clock.now }
        try await MockAPI.withServer(settings) { mock in
            var file = GatewayYAML(upstream: mock.baseURL)
            file.calls = calls
            try await GatewayProcess.running(file) { gateway in try await body(gateway, mock) }
        }
    }

    @Test("A user signs in, is refreshed, and is signed out by the code that ends a session")
    func session() async throws {
        let clock = MockClock()
        try await running(clock: clock) { gateway, mock in
            let client = gateway.client
            let wrong = try await client.signIn(password: "wrong")
            #expect(wrong.status == 401)
            #expect(wrong.problem?.reason == "invalid_credentials")
            #expect(try await client.signIn().status == 200)
            #expect(try await client.get("/videos/1").status == 200)
            mock.api.rejectIssuedAccessTokens()
            #expect(try await client.get("/videos/1").status == 200)
            #expect(mock.observations.snapshot().refreshes == 1)

            let other = client.other()
            #expect(try await other.signIn().status == 200)
            clock.advance(by: 9 * 3_600)
            let rejected = try await other.get("/videos/1")
            #expect(rejected.status == 401)
            #expect(rejected.problem?.reason == "refresh_rejected")
            #expect(mock.observations.snapshot().count("POST", "/login/again") == 2)
        }
    }

    @Test("A code that is not listed ends no session")
    func otherCode() async throws {
        let clock = MockClock()
        try await running(Self.calls(endsOn: "session_over"), clock: clock) { gateway, _ in
            let client = gateway.client
            #expect(try await client.signIn().status == 200)
            clock.advance(by: 9 * 3_600)
            let rejected = try await client.get("/videos/1")
            #expect(rejected.status == 502)
            #expect(rejected.problem?.code == "identity_misconfigured")
            #expect(rejected.values(of: "Set-Cookie") == [])
            #expect(try await client.get("/auth").status == 200)
        }
    }

    @Test("A sign-in without its static member is no success")
    func otherRealm() async throws {
        try await running(Self.calls(realm: "other")) { gateway, _ in
            let response = try await gateway.client.signIn()
            #expect(response.status == 401)
            #expect(response.problem?.reason == "invalid_credentials")
            #expect(response.values(of: "Set-Cookie") == [])
        }
    }
}
