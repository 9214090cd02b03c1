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
    private static let forward = GatewaySetup([.request, .send(Reply.ok), .again])

    private static func claimed(_ request: ScriptedUpstream.Request) -> [String] {
        let lines = request.head.split(separator: "\r\n").map { $0.lowercased() }
        return claims.filter { lines.contains($0.lowercased()) }
    }

    private static func request(_ more: [String] = []) -> String {
        (["GET /public/a HTTP/1.1", "Host: gateway.test"] + claims + more).joined(separator: "\r\n") + "\r\n\r\n"
    }

    @Test("Rule 43: no claim of another method, path, address or user reaches the upstream, even from a trusted peer")
    func removed() async throws {
        for isTrusted in [false, true] {
            try await Self.forward.configuration { configuration in
                if isTrusted { configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } }
            }.run { gateway in
                let client = try await gateway.client()
                #expect(try await client.exchange(Self.request()).text == "ok")
                // A trusted peer's `X-Real-IP` is a forwarding field like `X-Forwarded-For`.
                let left = isTrusted ? ["X-Real-IP: 127.0.0.1"] : []
                #expect(Self.claimed(try await gateway.upstream.request()) == left)
            }
        }
    }

    @Test("Rule 43: claims are removed over HTTP/2 too")
    func http2() async throws {
        try await Self.forward.http2().run { gateway in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.get()
            fields.lines +=
                HTTP2Fields(
                    Self.claims.map { line in
                        let parts = line.split(separator: ": ")
                        return (parts[0].lowercased(), String(parts[1]))
                    }
                ).lines
            #expect(try await client.exchange(1, fields).text == "ok")
            #expect(Self.claimed(try await gateway.upstream.request()).isEmpty)
        }
    }

    @Test("Rule 43: a route forwards the fields that it allows, and another route does not")
    func listed() async throws {
        try await Self.forward.configuration { $0.routes[0].passFields = ["X-HTTP-Method-Override", "Remote-User"] }
            .run { gateway in
                let client = try await gateway.client()
                #expect(try await client.exchange(Self.request()).text == "ok")
                #expect(
                    Self.claimed(try await gateway.upstream.request(0))
                        == ["X-HTTP-Method-Override: DELETE", "Remote-User: admin"])
                #expect(try await client.exchange(Self.request(["Connection: remote-user"])).text == "ok")
                #expect(
                    Self.claimed(try await gateway.upstream.request(1)) == ["X-HTTP-Method-Override: DELETE"])
                #expect(
                    try await client.exchange(Self.request().replacing("/public/a", with: "/token/a")).text == "ok")
                #expect(Self.claimed(try await gateway.upstream.request(2)).isEmpty)
            }
    }
}
