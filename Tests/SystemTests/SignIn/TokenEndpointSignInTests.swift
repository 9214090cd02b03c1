import Foundation
import TestSupport
import Testing

@testable import MockAPI

/// An API with OAuth's token endpoint, whose users have names that are no e-mail addresses, tested through the running
/// program.
@Suite("Signing in at a token endpoint", .serialized, .timeLimit(.minutes(4)))
struct TokenEndpointSignInTests {
    private static let name = "J\u{f6} \u{c5}ngstr\u{f6}m"
    private static let password = "canary-p&ss=w\u{f6}rd+%41"
    private static let clientID = "gate:way"
    private static let clientSecret = "canary-secret+/= %41&"
    private static let adminToken = "canary-admin-token-of-32-bytes"

    private static let settings =
        MockAPISettings(
            users: [
                MockUser(email: name, password: password, name: "Jo"),
                MockUser(email: "kim:1", password: password, name: "Kim"),
            ], clientID: clientID, clientSecret: clientSecret, exposeObservations: true)

    /// Serves in front of the API while `body` runs, at the most verbose level. No output may contain a secret.
    private func running(_ body: (GatewayProcess, RunningMockAPI) async throws -> Void) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.clientSecret + "\n", to: "client")
        let client = "client: { id: '\(Self.clientID)', secretFile: '\(directory.path(of: "client"))' }"
        let set = [
            "admin.token=\(Self.adminToken)", "logging.level=trace", "tracing.exporter=log", "tracing.ratio=1",
        ]
        try await MockAPI.withServer(Self.settings) { mock in
            var file = GatewayYAML(upstream: mock.baseURL)
            file.calls = [
                "signIn: { path: /oauth/token, credentials: oauth, static: { scope: read } }",
                "refresh: { path: /oauth/token, credentials: oauth }",
                "revoke: { path: /oauth/revoke, credentials: oauth }", client, "user: { path: /user }",
            ]
            file.accounts = "accounts: { name: { member: username, kind: text } }"
            try await GatewayProcess.running(file, set: set) { gateway in
                try await body(gateway, mock)
                try await eventually("spans are in the log") {
                    gateway.program.output.contains(#""logger":"span""#)
                }
                let basic = Self.clientAuthorization.dropFirst("Basic ".count)
                for text in [gateway.program.output, gateway.program.errors] {
                    expect(!text.contains("canary"), "a secret is in the output")
                    expect(!text.contains(basic), "the client's credentials are in the output")
                    expect(!text.contains("grant_type"), "a request body is in the output")
                }
            }
        }
    }

    /// Identifier and secret are form-encoded before they are joined (RFC 6749 §2.3.1).
    private static let clientAuthorization =
        "Basic " + Data("gate%3Away:canary-secret%2B%2F%3D+%2541%26".utf8).base64EncodedString()

    private func signIn(
        _ client: WebClient, name: String = Self.name, password: String = Self.password
    ) async throws -> TestResponse {
        let body = try JSONEncoder().encode(["username": name, "password": password])
        return try await client.send(
            "POST", "/auth", [("Content-Type", "application/json")], body: String(decoding: body, as: UTF8.self))
    }

    private func signInByForm(_ client: WebClient, name: String = Self.name) async throws -> TestResponse {
        func escape(_ text: String) -> String {
            text.utf8.map { "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        return try await client.send(
            "POST", "/auth", [("Content-Type", "application/x-www-form-urlencoded")],
            body: "username=\(escape(name))&password=\(escape(Self.password))")
    }

    @Test("A user signs in by name with JSON, a form and Basic, is served, and is signed out at the API too")
    func dialects() async throws {
        try await running { gateway, mock in
            for signIn in [
                { try await self.signIn($0) }, { try await signInByForm($0) },
                { try await $0.signIn(email: Self.name, password: Self.password) },
            ] as [(WebClient) async throws -> TestResponse] {
                let client = gateway.client
                let response = try await signIn(client)
                expect(response.status, equals: 200)
                try expect(response.json(as: WhoAmI.self).user, equals: .init(email: Self.name, name: "Jo"))
                try await expect(client.get("/videos/1").status, equals: 200)
                try await expect(client.get("/auth").status, equals: 200)
                try await expect(client.send("DELETE", "/auth").status, equals: 204)
            }
            let traffic = mock.observations.snapshot()
            expect(traffic.count("POST", "/oauth/token"), equals: 3)
            expect(traffic.count("POST", "/oauth/revoke"), equals: 3)
            for request in traffic.recent where request.path.hasPrefix("/oauth") {
                expect(request.values(of: "Authorization"), equals: [Self.clientAuthorization])
                expect(request.values(of: "Content-Type"), equals: ["application/x-www-form-urlencoded"])
            }
            // In Basic credentials the colon ends the name: the API rejects another name with another password.
            try await expect(signIn(gateway.client, name: "kim:1").status, equals: 200)
            let cut = try await gateway.client.signIn(email: "kim:1", password: Self.password)
            expect(cut.problem?.reason, equals: "invalid_credentials")
            expect(cut.problem?.detail, equals: "The name/password combination is invalid.")
        }
    }

    @Test("An operator ends the sessions of a user by name; another spelling is another name")
    func revocation() async throws {
        try await running { gateway, _ in
            let client = gateway.client
            try await expect(signIn(client).status, equals: 200)
            let fields = [("Authorization", "Bearer \(Self.adminToken)"), ("Content-Type", "application/json")]
            for (name, count) in [(Self.name.uppercased(), 0), (Self.name + " ", 0), (Self.name, 1)] {
                let body = String(decoding: try JSONEncoder().encode(["user": name]), as: UTF8.self)
                let response = try await WebClient(gateway.admin).send("POST", "/sessions/revoke", fields, body: body)
                expect(response.body, equals: #"{"ended":\#(count)}"#)
            }
            try await expect(client.get("/videos/1").problem?.reason, equals: "revoked")
        }
    }
}
