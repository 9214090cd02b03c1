import CloakroomCore
import TestSupport
import Testing

@Suite("Client fields that claim an identity or override the request", .serialized)
struct ClaimTests {
    private static let claims = [
        "X-HTTP-Method-Override: DELETE", "X_HTTP_Method_Override: DELETE", "X-Original-URL: /private/a",
        "X-Rewrite-URL: /private/a", "Client-IP: 127.0.0.1", "True-Client-IP: 127.0.0.1", "X-Real-IP: 127.0.0.1",
        "Remote-User: admin", "Remote_User: admin", "X-Forwarded-User: admin", "X-Authenticated-User: admin",
        "X-Auth-Request-Email: a@b", "SSL-Client-Verify: SUCCESS", "X-SSL-Client-S-DN: CN=admin",
        "X-User-Id: admin", "OIDC_CLAIM_sub: admin", "Script_Name: /private", "X-Envoy-Original-Path: /private/a",
    ]

    private static func request(_ path: String = "/public/a", _ more: [String] = []) -> String {
        Ask.ask("GET", path, claims + more)
    }

    /// Expects these claims and no other ones.
    private static func only(_ kept: [String]) -> Scenario.Expectation {
        .init(has: claims.map { kept.contains($0) ? $0 : String($0.prefix { $0 != ":" }) })
    }

    private static let rows = [
        Scenario(
            "Rule 43: not even from a trusted peer, whose X-Real-IP is a forwarding field like X-Forwarded-For",
            on: .serving.configuration { $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } },
            .ok(request()), sent: [only(["X-Real-IP: 127.0.0.1"])]),
        Scenario(
            "Rule 43: a route forwards the fields that it allows, and another route does not",
            on: .serving.configuration { $0.routes[0].passFields = ["X-HTTP-Method-Override", "Remote-User"] },
            .ok(request()), .ok(request("/public/a", ["Connection: remote-user"])), .ok(request("/token/a")),
            sent: [
                only(["X-HTTP-Method-Override: DELETE", "Remote-User: admin"]),
                only(["X-HTTP-Method-Override: DELETE"]), only([]),
            ]),
    ]

    @Test("Claims", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }
}
