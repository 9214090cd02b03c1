import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("WebSockets opened by pages of other sites (RFC 6455 §10.2)", .serialized)
struct CrossSiteTunnelTests {
    private static func run(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (RunningGateway, RawServer, String) async throws -> Void
    ) async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await Tunnel.gateway(GatewaySetup().with(\.sessions, sessions)) { configuration in
            configuration.listeners[0].http2 = true
            adjust(&configuration)
        } body: { gateway, server in
            try await body(gateway, server, cookie)
        }
    }

    @Test(
        "A cross-site page cannot open a WebSocket with the user's cookie, and the upstream receives nothing",
        arguments: [
            "Origin: https://evil.test", "Origin: null", "Origin: https://gateway.test", "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        ])
    func rejected(field: String) async throws {
        try await Self.run { gateway, server, cookie in
            let client = try await gateway.client()
            let response = try await client.exchange(Handshake.request("/private/socket", cookie, field))
            #expect(response.status == 403)
            #expect(response.code == "cross_site")
            // It was an ordinary response: the connection stays open.
            #expect(try await client.exchange(Ask.get("/nowhere")).status == 404)
            #expect(server.peers.isEmpty)
        }
    }

    @Test(
        "A same-origin page and a page of a trusted origin can open a WebSocket",
        arguments: ["Origin: http://gateway.test", "Origin: https://partner.test", "Sec-Fetch-Site: same-origin"])
    func allowed(field: String) async throws {
        try await Self.run {
            // A page cannot add this field to a WebSocket handshake.
            $0.crossSite = CrossSiteConfiguration(
                trustedOrigins: ["https://partner.test"], requiredField: .init(name: "X-CSRF", value: "1"))
        } body: { gateway, server, cookie in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request("/private/socket", cookie, field))
            let upstream = try await server.peer()
            _ = try await upstream.head()
            upstream.send(Handshake.consent)
            #expect(try await client.head().hasPrefix("HTTP/1.1 101"))
        }
    }

    @Test("Without the cookie it is 401, and on a public route the origin does not matter")
    func withoutCookie() async throws {
        try await Self.run { gateway, server, cookie in
            let client = try await gateway.client()
            let evil = "Origin: https://evil.test"
            #expect(try await client.exchange(Handshake.request("/private/socket", evil)).status == 401)
            let peer = try await RawPeer.connect(port: gateway.port)
            peer.send(Handshake.request("/public/socket", cookie, evil))
            let head = try await server.peer().head()
            #expect(!head.contains("cloakroom="))
        }
    }

    @Test("RFC 8441: the same rules apply to an extended CONNECT")
    func connect() async throws {
        try await Self.run { gateway, server, cookie in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/private/socket")
            fields.lines += HTTP2Fields([CookieLine.field(cookie)]).lines
            for (index, extra) in [
                ("origin", "https://evil.test"), ("origin", "null"), ("sec-fetch-site", "cross-site"),
            ].enumerated() {
                var evil = fields
                evil.lines += HTTP2Fields([extra]).lines
                let id = UInt32(2 * index + 1)
                client.send(.headers(id, evil, ends: false))
                let response = try await client.response(id)
                #expect(response.status == 403)
                #expect(response.code == "cross_site")
            }
            #expect(server.peers.isEmpty)
            fields.lines += HTTP2Fields([("origin", "http://gateway.test")]).lines
            client.send(.headers(101, fields, ends: false))
            let upstream = try await server.peer()
            _ = try await upstream.head()
            upstream.send(Handshake.consent)
            try await eventually("the tunnel") { client.stream(101).status != nil || client.isClosed }
            #expect(client.stream(101).status == 200)
        }
    }
}

/// A `Cookie` line of HTTP/1.1 as a field of HTTP/2.
enum CookieLine {
    static func field(_ line: String) -> (String, String) {
        ("cookie", String(line.dropFirst("Cookie: ".count)))
    }
}
