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

    private static func request(isTrusted: Bool) async throws -> ScriptedUpstream.Request {
        try await GatewaySetup([.request, .send(Reply.ok)])
            .configuration { configuration in
                if isTrusted { configuration.trustedProxies = [CIDRBlock("127.0.0.0/8")].compactMap { $0 } }
            }
            .run { gateway in
                let lines = ["GET /public/a HTTP/1.1", "Host: gateway.test"] + claims
                let response = try await gateway.client().exchange(lines.joined(separator: "\r\n") + "\r\n\r\n")
                #expect(response.text == "ok")
                return try await gateway.upstream.request()
            }
    }

    @Test("Rule 7: the fields of an untrusted peer are replaced; the trusted list is empty by default")
    func stranger() async throws {
        let request = try await Self.request(isTrusted: false)
        #expect(request.values("X-Forwarded-For") == ["127.0.0.1"])
        #expect(request.values("X-Forwarded-Proto") == ["http"])
        #expect(request.values("X-Forwarded-Host") == ["gateway.test"])
        #expect(request.values("Forwarded") == ["for=127.0.0.1;proto=http;host=\"gateway.test\""])
        #expect(request.values("Via") == ["1.1 cloakroom"])
        for name in ["X-Forwarded-Port", "X-Forwarded-Server", "X-Real-IP"] {
            #expect(request.values(name).isEmpty, "\(name)")
        }
        #expect(!request.head.contains("203.0.113.9"))
    }

    @Test("The fields of a trusted peer are kept, and the gateway's are appended")
    func trusted() async throws {
        let request = try await Self.request(isTrusted: true)
        #expect(request.values("X-Forwarded-For") == ["203.0.113.9", "127.0.0.1"])
        #expect(request.values("X-Forwarded-Proto") == ["https"])
        #expect(request.values("X-Forwarded-Host") == ["shop.test"])
        #expect(request.values("X-Forwarded-Port") == ["443"])
        #expect(request.values("X-Real-IP") == ["203.0.113.9"])
        #expect(
            request.values("Forwarded")
                == ["for=203.0.113.9;proto=https", "for=127.0.0.1;proto=http;host=\"gateway.test\""])
        #expect(request.values("Via") == ["1.1 other", "1.1 cloakroom"])
    }

    @Test("Every request has its own id, and an untrusted peer cannot choose it")
    func requestID() async throws {
        try await GatewaySetup([.request, .send(Reply.ok), .again]).run { gateway in
            let client = try await gateway.client()
            for _ in 0..<2 {
                _ = try await client.exchange(Ask.get("/public/a", "X-Request-Id: mine", "X_Request_Id: me"))
            }
            let ids = gateway.upstream.requests.flatMap { $0.values("X-Request-Id") }
            #expect(Set(ids).count == 2)
            #expect(ids.allSatisfy { $0.count == 32 && $0.allSatisfy(\.isHexDigit) })
            #expect(!gateway.upstream.requests.contains { $0.head.contains("X_Request_Id") })
        }
    }

    @Test("Rule 52: the session cookie is removed, and other cookies are forwarded")
    func cookies() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await GatewaySetup([.request, .send(Reply.ok), .again]).with(\.sessions, sessions).run { gateway in
            let client = try await gateway.client()
            _ = try await client.exchange(Ask.get("/private/a", cookie + "; theme=dark", "Cookie: a=1; b=2"))
            #expect(gateway.upstream.requests[0].values("Cookie") == ["theme=dark; a=1; b=2"])
            _ = try await client.exchange(Ask.get("/private/a", cookie))
            #expect(gateway.upstream.requests[1].values("Cookie").isEmpty)
            _ = try await client.exchange(Ask.get("/public/a", cookie))
            #expect(gateway.upstream.requests[2].values("Cookie").isEmpty)
        }
    }
}
