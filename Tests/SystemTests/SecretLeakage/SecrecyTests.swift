import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI

/// Where secrets must not appear: in any output of the gateway.
@Suite("Secrecy", .serialized, .timeLimit(.minutes(3)))
struct SecrecyTests {
    private static let password = "canary-password-5f1d"
    private static let apiToken = "canary-api-token-77ab"
    private static let query = "canary-query-90cc"
    private static let loudest = [
        "logging.level=trace", "tracing.exporter=log", "tracing.ratio=1", "trustedProxies=127.0.0.1",
    ]

    private static var settings: MockAPISettings {
        MockAPISettings(
            apiToken: apiToken, users: [MockUser(email: "jo@example.com", password: password, name: "Jo")],
            exposeObservations: true)
    }

    /// Runs every kind of session request, with valid and invalid input.
    /// - Returns: All responses, and all tickets that were issued.
    private func scenario(
        _ gateway: GatewayProcess, _ mock: RunningMockAPI
    ) async throws -> (responses: [TestResponse], tickets: [String]) {
        let client = gateway.client
        let (email, password) = ("jo@example.com", Self.password)
        var tickets: [String] = []
        func note() { client.cookie.map { tickets.append($0) } }
        _ = try await client.signIn(email: email, password: password + "-wrong")
        _ = try await client.signIn(email: "jo@@example.com", password: password)
        let json = [("Content-Type", "application/json")]
        _ = try await client.send("POST", "/auth", json, body: #"{"email":"jo","password":"\#(password)"}"#)
        _ = try await client.send("POST", "/auth", json, body: #"{"password":"\#(password)""#)
        _ = try await client.signIn(email: email, password: password)
        note()
        _ = try await client.send("POST", "/auth", json, body: #"{"email":"\#(email)","password":"\#(password)"}"#)
        note()
        _ = try await client.get("/auth")
        _ = try await client.get("/videos/1?access_token=\(Self.query)")
        _ = try await client.get("/user")
        _ = try await client.get("/episodes")
        _ = try await client.send("POST", "/__mock/echo", body: "echo")
        for status in [401, 500] {
            mock.faults.failNext("GET", "/videos/1", statuses: [status])
            _ = try await client.get("/videos/1")
        }
        mock.faults.failNext("POST", "/auth", statuses: [500])
        _ = try await client.signIn(email: email, password: password)
        mock.faults.failNext("GET", "/user", statuses: [401])
        _ = try await client.signIn(email: email, password: password)
        _ = try await client.get("/videos/%00?\(Self.query)")
        _ = try await client.get("/nothing?\(Self.query)")
        let ticket = client.cookie ?? ""
        let basic = WebClient.basic(email, password)
        for bytes in [
            "GET /videos/1 HTTP/1.1\r\nCookie: \(WebClient.cookieName)=\(ticket)\r\n\r\n",
            "GET /videos/1 HTTP/1.1\r\nHost: localhost\r\nCookie: \(WebClient.cookieName)=\(ticket)\r\n folded\r\n\r\n",
            "POST /auth HTTP/1.1\r\nHost: localhost\r\nAuthorization: \(basic)\u{0}\r\n\r\n",
            "POST /auth HTTP/1.1\r\nHost: localhost\r\nAuthorization \(basic)\r\n\r\n",
        ] {
            _ = try await RawPeer.exchange(Array(bytes.utf8), port: gateway.clear.port)
        }
        mock.faults.failNext("POST", "/auth/revoke", statuses: [500])
        _ = try await client.send("DELETE", "/auth")
        _ = try await client.get("/videos/1")
        return (client.responses, tickets)
    }

    /// The access and refresh tokens that the API received as bearer tokens.
    private func tokens(_ mock: RunningMockAPI) -> Set<String> {
        let values = mock.observations.snapshot().recent.flatMap { $0.values(of: "Authorization") }
        return Set(values.filter { $0.hasPrefix("Bearer ") }.map { String($0.dropFirst(7)) })
    }

    @Test("Rule 11: no local response redirects, whatever a client requests")
    func noLocation() async throws {
        try await GatewayProcess.running(before: Self.settings) { gateway, mock in
            let (responses, _) = try await scenario(gateway, mock)
            let client = gateway.client
            var more: [TestResponse] = []
            let elsewhere = "https://evil.example/"
            for query in ["next", "return_to", "redirect_uri", "rd", "url"] {
                for method in ["GET", "POST", "DELETE"] {
                    let fields = [
                        ("X-Forwarded-Host", "evil.example"), ("Referer", elsewhere), ("X-Original-URL", elsewhere),
                        ("X-Auth-Request-Redirect", elsewhere),
                        ("Authorization", WebClient.basic("jo@example.com", Self.password)),
                    ]
                    more.append(try await client.send(method, "/auth?\(query)=\(elsewhere)", fields))
                }
            }
            expect(more.contains { $0.status == 200 } && more.contains { $0.status == 204 })
            for response in responses + more {
                expect(response.values(of: "Location"), equals: [])
                expect(response.values(of: "Refresh"), equals: [])
                expect(!(300...399).contains(response.status))
                expect(!response.body.contains("evil.example"))
            }
        }
    }

    @Test(
        "Rules 18, 22: no secret and no token is in any log line at level trace, span, metric, response or store",
        arguments: SessionStoreFixture.Kind.allCases)
    func canaries(kind: SessionStoreFixture.Kind) async throws {
        try await SessionStoreFixture.with(kind) { place in try await canaries(in: place) }
    }

    private func canaries(in place: SessionStoreFixture) async throws {
        let set = Self.loudest + place.settings()
        try await GatewayProcess.running(before: Self.settings, set: set) { gateway, mock in
            let (responses, tickets) = try await scenario(gateway, mock)
            let metrics = try await WebClient(gateway.admin).get("/metrics").body
            // Read the store while a session is active: records of ended sessions may be deleted from its files.
            let lasting = gateway.client
            try await expect(lasting.signIn(password: Self.password).status, equals: 200)
            try await expect(lasting.get("/videos/1").status, equals: 200)
            let kept = Data(try place.contents())
            // Signing out sends the refresh token to the mock, which records it.
            let ticket = lasting.cookie ?? ""
            try await expect(lasting.send("DELETE", "/auth").status, equals: 204)
            gateway.program.send(SIGTERM)
            let ending = try await gateway.program.ending()
            expect(ending.status, equals: 0)

            expect(tickets.count, equals: 2)
            let basic = WebClient.basic("jo@example.com", Self.password).dropFirst(6)
            let secrets =
                [Self.password, Self.apiToken, Self.query, String(basic), SessionStoreFixture.secret] + tickets
                + [ticket] + Array(tokens(mock))
            #expect(secrets.count >= 12)
            // The access tokens of two sessions, and the refresh tokens that were revoked.
            #expect(tokens(mock).count >= 4)
            #expect(responses.count >= 18)
            // Every JWT starts with these characters. A ticket may do so by chance.
            let texts = responses.map(\.textWithoutTicket)
            expect(!texts.contains { $0.contains("eyJ") || $0.lowercased().contains("accesstoken") })
            expect(!secrets.contains(""))
            expect(place.kind == .memory, equals: kept.isEmpty)
            for (index, secret) in (secrets + ["jo@example.com"]).enumerated() {
                expect(kept.range(of: Data(secret.utf8)), equals: nil, "secret \(index) is in the store")
            }
            let places = [
                "output": gateway.program.output, "errors": gateway.program.errors, "metrics": metrics,
                "responses": responses.map(\.textWithoutTicket).joined(separator: "\n"),
            ]
            for (place, text) in places {
                for (index, secret) in secrets.enumerated() {
                    // A failure message must not contain the secret itself.
                    expect(!text.contains(secret), "secret \(index) is in the \(place)")
                }
            }
            // The log is not empty, so the checks above are effective.
            expect(places["output"]?.contains(#""logger":"span""#), equals: true)
            expect(places["output"]?.contains(#""logger":"access""#), equals: true)
            expect(places["output"]?.contains(#""event":"sign_in""#), equals: true)
            expect(metrics.contains("cloakroom_sign_ins_total"))
        }
    }
}
