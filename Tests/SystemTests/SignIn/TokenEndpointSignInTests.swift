import Foundation
import Synchronization
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

    private static func settings(_ clock: MockClock) -> MockAPISettings {
        MockAPISettings(
            users: [
                MockUser(email: name, password: password, name: "Jo"),
                MockUser(email: "kim:1", password: password, name: "Kim"),
            ], clientID: clientID, clientSecret: clientSecret, exposeObservations: true, now: { clock.now })
    }

    /// Serves in front of the API while `body` runs, at the most verbose level. No output may contain a secret.
    /// - Parameter body: Its last parameter replaces the content of the client secret's file.
    private func running(
        _ clock: MockClock = MockClock(),
        _ body: (GatewayProcess, RunningMockAPI, _ replaceSecret: (String) throws -> Void) async throws -> Void
    ) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Self.clientSecret + "\n", to: "client")
        let client = "client: { id: '\(Self.clientID)', secretFile: '\(directory.path(of: "client"))' }"
        let set = [
            "admin.token=\(Self.adminToken)", "reload.interval=0s", "logging.level=trace", "tracing.exporter=log",
            "tracing.ratio=1",
        ]
        try await MockAPI.withServer(Self.settings(clock)) { mock in
            var file = GatewayYAML(upstream: mock.baseURL)
            file.calls = [
                "signIn: { path: /oauth/token, credentials: oauth, static: { scope: read } }",
                "refresh: { path: /oauth/token, credentials: oauth }",
                "revoke: { path: /oauth/revoke, credentials: oauth }", client, "user: { path: /user }",
            ]
            file.accounts = "accounts: { name: { member: username, kind: text } }"
            try await GatewayProcess.running(file, set: set) { gateway in
                try await body(gateway, mock) { try directory.write($0, to: "client") }
                try await eventually("spans are in the log") {
                    gateway.program.output.contains(#""logger":"span""#)
                }
                let basic = Self.clientAuthorization.dropFirst("Basic ".count)
                for text in [gateway.program.output, gateway.program.errors] {
                    #expect(!text.contains("canary"), "a secret is in the output")
                    #expect(!text.contains(basic), "the client's credentials are in the output")
                    #expect(!text.contains("grant_type"), "a request body is in the output")
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
        try await running { gateway, mock, _ in
            for signIn in [
                { try await self.signIn($0) }, { try await signInByForm($0) },
                { try await $0.signIn(email: Self.name, password: Self.password) },
            ] as [(WebClient) async throws -> TestResponse] {
                let client = gateway.client
                let response = try await signIn(client)
                #expect(response.status == 200)
                #expect(try response.json(as: WhoAmI.self).user == .init(email: Self.name, name: "Jo"))
                #expect(try await client.get("/videos/1").status == 200)
                #expect(try await client.get("/auth").status == 200)
                #expect(try await client.send("DELETE", "/auth").status == 204)
            }
            let traffic = mock.observations.snapshot()
            #expect(traffic.count("POST", "/oauth/token") == 3)
            #expect(traffic.count("POST", "/oauth/revoke") == 3)
            for request in traffic.recent where request.path.hasPrefix("/oauth") {
                #expect(request.values(of: "Authorization") == [Self.clientAuthorization])
                #expect(request.values(of: "Content-Type") == ["application/x-www-form-urlencoded"])
            }
            // In Basic credentials the colon ends the name: the API rejects another name with another password.
            #expect(try await signIn(gateway.client, name: "kim:1").status == 200)
            let cut = try await gateway.client.signIn(email: "kim:1", password: Self.password)
            #expect(cut.problem?.reason == "invalid_credentials")
            #expect(cut.problem?.detail == "The name/password combination is invalid.")
        }
    }

    @Test("Tokens are refreshed when they expire; invalid_grant ends the session")
    func refresh() async throws {
        let clock = MockClock()
        try await running(clock) { gateway, mock, _ in
            let client = gateway.client
            #expect(try await signIn(client).status == 200)
            clock.advance(by: 600)
            for _ in 0..<3 { #expect(try await client.get("/videos/1").status == 200) }
            #expect(mock.observations.snapshot().refreshes == 1)
            #expect(mock.observations.snapshot().count("POST", "/oauth/token") == 2)

            let other = client.other()
            #expect(try await signIn(other).status == 200)
            let cookie = other.cookie
            // The refresh token expires after eight hours.
            clock.advance(by: 9 * 3_600)
            let rejected = try await other.get("/videos/1")
            #expect(rejected.status == 401)
            #expect(rejected.problem?.reason == "refresh_rejected")
            #expect(rejected.values(of: "Set-Cookie").first?.contains("Max-Age=0") == true)
            let again = try await client.other(cookie: cookie).get("/videos/1")
            #expect(again.problem?.reason == "refresh_rejected")
            #expect(mock.observations.snapshot().count("POST", "/oauth/token") == 4)
            #expect(mock.observations.snapshot().reuseDetections == 0)
            #expect(try await signIn(other).status == 200)
        }
    }

    @Test("A wrong client secret ends no session: refreshes and sign-ins are 502 until it is corrected")
    func wrongClientSecretEndsNothing() async throws {
        try await running { gateway, mock, replaceSecret in
            let client = gateway.client
            #expect(try await signIn(client).status == 200)
            let cookie = client.cookie
            try replaceSecret("canary-of-another-client")
            try await gateway.reload()
            mock.api.rejectIssuedAccessTokens()
            for _ in 0..<3 {
                let response = try await client.get("/videos/1")
                #expect(response.status == 502)
                #expect(response.problem?.code == "identity_misconfigured")
                #expect(Int(response.values(of: "Retry-After").first ?? "").map { $0 >= 1 } == true)
                #expect(response.values(of: "Set-Cookie") == [])
                #expect(!response.textWithoutTicket.contains("client"))
                #expect(try await client.get("/auth").status == 200)
            }
            let other = client.other()
            let rejected = try await signIn(other)
            #expect(rejected.status == 502)
            #expect(rejected.problem?.code == "identity_misconfigured")
            #expect(other.cookie == nil)
            let lines = gateway.program.lines.filter { $0.contains(#""event":"identity_misconfigured""#) }
            #expect(!lines.isEmpty && lines.allSatisfy { $0.contains("invalid_client") })

            try replaceSecret(Self.clientSecret)
            try await gateway.reload()
            try await eventually("the session is served again") { try await client.get("/videos/1").status == 200 }
            #expect(client.cookie == cookie)
            #expect(mock.observations.snapshot().refreshes == 1)
            #expect(mock.observations.snapshot().reuseDetections == 0)
            #expect(try await signIn(other).status == 200)
        }
    }

    private func revoke(_ admin: WebClient, _ user: String) async throws -> String {
        let body = try JSONEncoder().encode(["user": user])
        let response = try await admin.send(
            "POST", "/sessions/revoke",
            [("Authorization", "Bearer \(Self.adminToken)"), ("Content-Type", "application/json")],
            body: String(decoding: body, as: UTF8.self))
        return response.body
    }

    @Test("An operator ends the sessions of a user by name and by id; another spelling is another name")
    func revocation() async throws {
        try await running { gateway, mock, _ in
            let admin = WebClient(gateway.admin)
            let clients = (0..<2).map { _ in gateway.client.other() }
            for client in clients { #expect(try await signIn(client).status == 200) }
            for spelling in [
                Self.name.uppercased(), Self.name.decomposedStringWithCanonicalMapping, Self.name + " ", "kim:1",
            ] {
                #expect(try await revoke(admin, spelling) == #"{"ended":0}"#)
            }
            #expect(try await revoke(admin, Self.name) == #"{"ended":2}"#)
            for client in clients {
                let response = try await client.get("/videos/1")
                #expect(response.status == 401)
                #expect(response.problem?.reason == "revoked")
            }
            try await eventually("the tokens are revoked") {
                mock.observations.snapshot().count("POST", "/oauth/revoke") == 2
            }
            struct User: Decodable { let id: String }
            let client = gateway.client
            #expect(try await signIn(client).status == 200)
            let id = try await client.get("/user").json(as: User.self).id
            #expect(try await revoke(admin, id) == #"{"ended":1}"#)
            #expect(try await client.get("/auth").status == 401)
        }
    }

    @Test("Names that cannot exist, doubled members and added parameters do not reach the API as such")
    func injection() async throws {
        try await running { gateway, mock, _ in
            let client = gateway.client
            for name in ["", "a\u{0}b", "a\r\nb", "a\u{2028}b", "a\u{85}b", String(repeating: "x", count: 255)] {
                for response in [try await signIn(client, name: name), try await signInByForm(client, name: name)] {
                    #expect(response.status == 422, "\(name.debugDescription)")
                    #expect(response.problem?.detail == "Enter a user name and a password.")
                }
            }
            for body in [
                #"{"username":"a","username":"b","password":"x"}"#,
                #"{"username":"a","user\u006eame":"b","password":"x"}"#,
            ] {
                let response = try await client.send(
                    "POST", "/auth", [("Content-Type", "application/json")], body: body)
                #expect(response.status == 400)
            }
            let twice = try await client.send(
                "POST", "/auth", [("Content-Type", "application/x-www-form-urlencoded")],
                body: "username=a&user%6eame=b&password=x")
            #expect(twice.status == 400)
            #expect(mock.observations.snapshot().total == 0)

            // An injected parameter would be a duplicate, which the API reports as invalid_request: 502.
            for name in ["jo&grant_type=refresh_token", "jo&username=kim:1", "jo=&password=", "jo%26username%3dkim"] {
                #expect(try await signIn(client, name: name).status == 401, "\(name)")
            }
            #expect(mock.observations.snapshot().count("POST", "/oauth/token") == 4)
        }
    }

    @Test("Spellings of a name share five attempts, also those with white space and invisible characters")
    func throttle() async throws {
        try await running { gateway, mock, _ in
            for name in ["kim:1", "KIM:1 ", "k\u{200b}im:1", "\u{3000}kim:1", "kim:\u{ff11}"] {
                #expect(try await signIn(gateway.client, name: name, password: "wrong").status == 401, "\(name)")
            }
            let throttled = try await signIn(gateway.client, name: "Kim:1\u{ad}")
            #expect(throttled.status == 429)
            #expect(mock.observations.snapshot().count("POST", "/oauth/token") == 5)
        }
    }
}

/// The clock of an API, which a test can set ahead.
final class MockClock: Sendable {
    private let offset = Mutex(0.0)

    var now: Date { Date(timeIntervalSinceNow: offset.withLock { $0 }) }

    func advance(by seconds: Double) { offset.withLock { $0 += seconds } }
}
