import CloakroomCore
import TestSupport
import Testing

@Suite("The opening of a WebSocket (RFC 6455 §4)", .serialized)
struct WebSocketHandshakeTests {
    private static let webSockets = webSockets(Handshake.consent)

    /// A gateway all of whose routes allow WebSockets.
    private static func webSockets(_ reply: String) -> GatewaySetup {
        .replying(reply).configuration {
            for index in $0.routes.indices { $0.routes[index].allowsWebSocket = true }
        }
    }

    private static let handshakes = [
        Scenario(
            "The handshake is forwarded both ways; the gateway writes Upgrade and Connection itself (RFC 6455 §4.1, §4.2.2)",
            on: webSockets,
            .ask(
                Handshake.request("/public/socket?a=b", "Origin: https://shop.test"),
                line: "HTTP/1.1 101 Switching Protocols",
                has: [
                    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
                    "Sec-WebSocket-Protocol: chat", "Content-Length", "Transfer-Encoding",
                ]),
            sent: [
                .init(
                    "GET /public/socket?a=b HTTP/1.1",
                    has: [
                        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: chat, superchat",
                        "Sec-WebSocket-Extensions: permessage-deflate", "Origin: https://shop.test",
                        "Via: 1.1 cloakroom",
                    ])
            ]),
        Scenario(
            "Two keys or versions are 400, and the upstream receives nothing (RFC 6455 §4.2.1)", on: webSockets,
            .each(
                [
                    "Sec-WebSocket-Key: YWFhYWFhYWFhYWFhYWFhYQ==", "Sec_WebSocket_Key: a", "Sec-WebSocket-Version: 8",
                ].map { Handshake.request("/public/socket", $0) }, 400), sent: []),
        Scenario(
            "Without a session it is 401 on a protected route, and the upstream receives nothing (RFC 6455 §4.2.2)",
            on: webSockets,
            .all(
                [
                    Handshake.request("/private/socket"),
                    Handshake.request("/private/socket", FakeSessions.strangeCookie),
                    Handshake.request("/private/socket", "Authorization: Bearer mine"),
                ], 401, reason: "no_session", has: ["Connection"]),
            // They were ordinary responses: the connection stays open.
            .ask(Ask.get("/nowhere"), 404), sent: []),
        Scenario(
            "Rule 52: with a session the upstream receives the injected fields, and not the cookie (RFC 6455 §10.5)",
            on: webSockets, .ask(Handshake.request("/private/socket", Ask.cookie), 101),
            sent: [
                .init(has: [
                    "Authorization: Bearer \(Canary.accessToken)", "X-API-TOKEN: \(Canary.apiToken)", "Cookie",
                    "Upgrade: websocket",
                ])
            ]),
        Scenario(
            "A route that does not allow WebSocket ignores the upgrade; a 101 is then 502 (RFC 9110 §7.8, §15.2.2)",
            on: .replying(Handshake.consent), .ask(Handshake.request(), 502),
            .run {
                try await $0.upstream.closed()
                let request = $0.upstream.requests[0]
                expect(request.values("Upgrade").isEmpty && request.values("Connection").isEmpty)
            }),
    ]

    private static let rejections = [403, 426, 200].map { (status: Int) in
        Scenario(
            "An upstream's rejection is forwarded, and both connections stay open (RFC 6455 §4.2.2)",
            on: webSockets("HTTP/1.1 \(status) X\r\nSec-WebSocket-Version: 13\r\nContent-Length: 2\r\n\r\nno"),
            .all(
                [Handshake.request(), Handshake.request()], status, text: "no",
                has: ["Sec-WebSocket-Version: 13", "Connection"]),
            .run { expect($0.upstream.connections.count, equals: 1) })
    }

    private static let otherProtocols = [
        "Upgrade: h2c\r\nConnection: Upgrade\r\n", "Upgrade: websocket\r\n", "Connection: Upgrade\r\n", "",
        "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
        "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n",
    ].map { fields in
        Scenario(
            "An upstream that switches to another protocol, or names none, is 502 (RFC 9110 §15.2.2)",
            on: webSockets("HTTP/1.1 101 Switching Protocols\r\n\(fields)\r\nstrange bytes"),
            .ask(Handshake.request(), 502, lacks: ["strange"]), .run { try await $0.upstream.closed() },
            // A strange byte before the next response would be misread as its beginning.
            .ask(Ask.get("/nowhere"), 404, line: "HTTP/1.1 404 …"))
    }

    /// Requests that mention the upgrade without being a valid WebSocket handshake.
    private static let invalid = [
        // A WebSocket handshake requires GET without body in HTTP/1.1 (RFC 6455 §4.1).
        Handshake.request().replacing("GET ", with: "POST "),
        Handshake.request("/public/socket", "Transfer-Encoding: chunked") + "0\r\n\r\n",
        Handshake.request().replacing("HTTP/1.1", with: "HTTP/1.0"),
        // Both fields are required (RFC 9110 §7.8).
        Handshake.request().replacing("Connection: keep-alive, Upgrade\r\n", with: ""),
        Handshake.request().replacing("Upgrade: WebSocket\r\n", with: ""),
        Handshake.request().replacing("Upgrade: WebSocket", with: "Upgrade: h2c"),
        Handshake.request().replacing("Upgrade: WebSocket", with: "Upgrade: h2c, websocket"),
        Handshake.request("/public/socket", "Upgrade: websocket"),
    ]

    private static let ignored = [
        Scenario(
            "An invalid upgrade is ignored, and the request is an ordinary one (RFC 9110 §7.8)",
            on: webSockets(Reply.ok), .each(invalid, 200, text: "ok"),
            sent: invalid.map { _ in .init(has: ["Upgrade", "Connection"]) }),
        Scenario(
            "An upgrade with a body is ignored, and the body is forwarded", on: webSockets(Reply.ok),
            .ok(Handshake.request("/public/socket", "Content-Length: 4") + "body"),
            sent: [.init(has: ["Upgrade", "Connection"], text: "body")]),
    ]

    @Test("Handshakes", arguments: handshakes + rejections + otherProtocols + ignored)
    func scenario(_ scenario: Scenario) async throws { try await scenario.run() }

    @Test("Client data sent before the 101 is neither lost nor forwarded early (RFC 6455 §4.1)")
    func beforeConsent() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Handshake.request() + "early")
            let upstream = try await server.requested()
            client.send(", and still early")
            // Another client's complete exchange passes meanwhile, on the same event loop.
            try await expect(gateway.client().exchange(Ask.get("/nowhere")).status, equals: 404)
            expect(empty: upstream.unread)
            upstream.send(Handshake.consent)
            try await expect(upstream.text(22), equals: "early, and still early")
        }
    }

    @Test("Client data sent before a rejection is parsed as its next request (RFC 9112 §9.3.2)")
    func beforeRejection() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client(sending: Handshake.request() + Ask.get("/nowhere"))
            let upstream = try await server.requested()
            upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            try await expect(client.response().status, equals: 403)
            try await expect(client.response().status, equals: 404)
        }
    }

    @Test("Upstream data sent directly after the 101 arrives after it (RFC 6455 §4.2.2)")
    func behindConsent() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port, sending: Handshake.request())
            let upstream = try await server.requested()
            upstream.send("HTTP/1.1 103 Early Hints\r\n\r\n" + Handshake.consent + "at once")
            try await expect(client.head().hasPrefix("HTTP/1.1 103"))
            try await expect(client.head().hasPrefix("HTTP/1.1 101"))
            try await expect(client.text(7), equals: "at once")
        }
    }

    @Test(
        "An upstream that does not respond to the handshake in time is 504, and one that disconnects 502 (RFC 9110 §15.6.5)"
    )
    func noResponse() async throws {
        try await Tunnel.gateway(GatewaySetup().steppedTime()) { gateway, server in
            let client = try await gateway.client(sending: Handshake.request())
            _ = try await server.peer().head()
            try await gateway.advance(.milliseconds(29_900))
            expect(empty: client.unread)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.response().status, equals: 504)
            client.send(Handshake.request())
            let upstream = try await server.requested(1)
            try await upstream.close()
            try await expect(client.response().status, equals: 502)
        }
    }

    @Test("A tunnel's connection is never reused for a request (RFC 9110 §7.8)")
    func notReused() async throws {
        try await Tunnel.open { tunnel in
            tunnel.client.send(Ask.get("/public/smuggled"))
            let request = Ask.get("/public/smuggled")
            try await expect(tunnel.upstream.text(request.utf8.count), equals: request)
            try await tunnel.client.close()
            try await tunnel.upstream.inputEnded()
            let next = try await tunnel.gateway.client()
            next.send(Ask.get())
            let upstream = try await tunnel.server.peer(1)
            _ = try await upstream.head()
            upstream.send(Reply.ok)
            try await expect(next.response().text, equals: "ok")
        }
    }
}
