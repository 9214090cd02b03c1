import CloakroomCore
import TestSupport
import Testing

@Suite("Forwarding fields sent to the upstream (RFC 7239; RFC 9110 §7.6.3)", .serialized)
struct ForwardingTests {
    private static let claims = [
        "X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test",
        "X-Forwarded-Port: 443", "X-Forwarded-Server: s", "X-Real-IP: 203.0.113.9", "Via: 1.1 other",
        "Forwarded: for=203.0.113.9;proto=https",
    ]

    private static let ask = Ask.ask("GET", "/public/a", claims)

    private static let rows = [
        Scenario(
            "The fields of a trusted peer are kept, and the gateway's are appended",
            on: .serving.configuration { $0.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } }, .ok(ask),
            sent: [
                .init(has: [
                    "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https",
                    "X-Forwarded-Host: shop.test", "X-Forwarded-Port: 443", "X-Real-IP: 203.0.113.9",
                    "Forwarded: for=203.0.113.9;proto=https",
                    "Forwarded: for=127.0.0.1;proto=http;host=\"gateway.test\"", "Via: 1.1 other",
                    "Via: 1.1 cloakroom",
                ])
            ]),
        Scenario(
            "Rule 52: the session cookie is removed, and other cookies are forwarded",
            .ok(Ask.get("/private/a", Ask.cookie + "; theme=dark", "Cookie: a=1; b=2")),
            .ok(Ask.get("/private/a", Ask.cookie)), .ok(Ask.get("/public/a", Ask.cookie)),
            sent: [.init(has: ["Cookie: theme=dark; a=1; b=2"]), .init(has: ["Cookie"]), .init(has: ["Cookie"])]),
    ]

    @Test("Forwarding", arguments: rows)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Every request has its own id, and an untrusted peer cannot choose it")
    func requestID() async throws {
        try await GatewaySetup.serving.run { gateway, client in
            for _ in 0..<2 {
                _ = try await client.exchange(Ask.get("/public/a", "X-Request-Id: mine", "X_Request_Id: me"))
            }
            let ids = gateway.upstream.requests.flatMap { $0.values("X-Request-Id") }
            expect(Set(ids).count, equals: 2)
            expect(ids.allSatisfy { $0.count == 32 && $0.allSatisfy(\.isHexDigit) })
            expect(!gateway.upstream.requests.contains { $0.head.contains("X_Request_Id") })
        }
    }
}
