import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("The opening of a WebSocket (RFC 6455 §4)", .serialized)
struct WebSocketHandshakeTests {
    @Test(
        "The handshake is forwarded both ways; the gateway writes Upgrade and Connection itself (RFC 6455 §4.1, §4.2.2)"
    )
    func passedOn() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request("/public/socket?a=b", "Origin: https://shop.test"))
            let upstream = try await server.peer()
            let request = ScriptedUpstream.Request(head: try await upstream.head())
            #expect(request.line == "GET /public/socket?a=b HTTP/1.1")
            #expect(request.values("Connection") == ["Upgrade"])
            #expect(request.values("Upgrade") == ["websocket"])
            #expect(request.values("Sec-WebSocket-Key") == ["dGhlIHNhbXBsZSBub25jZQ=="])
            #expect(request.values("Sec-WebSocket-Version") == ["13"])
            #expect(request.values("Sec-WebSocket-Protocol") == ["chat, superchat"])
            #expect(request.values("Sec-WebSocket-Extensions") == ["permessage-deflate"])
            #expect(request.values("Origin") == ["https://shop.test"])
            #expect(request.values("Via") == ["1.1 cloakroom"])
            upstream.send(Handshake.consent)
            let response = ScriptedUpstream.Request(head: try await client.head())
            #expect(response.line == "HTTP/1.1 101 Switching Protocols")
            #expect(response.values("Connection") == ["Upgrade"])
            #expect(response.values("Upgrade") == ["websocket"])
            #expect(response.values("Sec-WebSocket-Accept") == ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="])
            #expect(response.values("Sec-WebSocket-Protocol") == ["chat"])
            #expect(response.values("Content-Length").isEmpty)
            #expect(response.values("Transfer-Encoding").isEmpty)
        }
    }

    @Test(
        "Two keys or versions are 400, and the upstream receives nothing (RFC 6455 §4.2.1)",
        arguments: ["Sec-WebSocket-Key: YWFhYWFhYWFhYWFhYWFhYQ==", "Sec_WebSocket_Key: a", "Sec-WebSocket-Version: 8"])
    func doubled(line: String) async throws {
        try await Tunnel.gateway { gateway, server in
            let response = try await gateway.client().exchange(Handshake.request("/public/socket", line))
            #expect(response.status == 400)
            #expect(server.peers.isEmpty)
        }
    }

    @Test("Without a session it is 401 on a protected route, and the upstream receives nothing (RFC 6455 §4.2.2)")
    func sessionFirst() async throws {
        try await Tunnel.gateway { gateway, server in
            for request in [
                Handshake.request("/private/socket"),
                Handshake.request("/private/socket", FakeSessions.strangeCookie),
                Handshake.request("/private/socket", "Authorization: Bearer mine"),
            ] {
                let client = try await gateway.client()
                let response = try await client.exchange(request)
                #expect(response.status == 401)
                #expect(response.problemReason == "no_session")
                // It was an ordinary response: the connection stays open.
                #expect(try await client.exchange(Ask.get("/nowhere")).status == 404)
            }
            #expect(server.peers.isEmpty)
        }
    }

    @Test("Rule 52: with a session the upstream receives the injected fields, and not the cookie (RFC 6455 §10.5)")
    func injected() async throws {
        let sessions = FakeSessions()
        let cookie = sessions.add()
        try await Tunnel.gateway(GatewaySetup().with(\.sessions, sessions)) { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request("/private/socket", cookie))
            let request = ScriptedUpstream.Request(head: try await server.peer().head())
            #expect(request.values("Authorization") == ["Bearer \(Canary.accessToken)"])
            #expect(request.values("X-API-TOKEN") == [Canary.apiToken])
            #expect(request.values("Cookie").isEmpty)
            #expect(request.values("Upgrade") == ["websocket"])
        }
    }

    @Test(
        "An upstream's rejection is forwarded, and both connections stay open (RFC 6455 §4.2.2)",
        arguments: [403, 426, 200])
    func rejected(status: Int) async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            for _ in 0..<2 {
                client.send(Handshake.request())
                let upstream = try await server.peer()
                _ = try await upstream.head()
                upstream.send("HTTP/1.1 \(status) X\r\nSec-WebSocket-Version: 13\r\nContent-Length: 2\r\n\r\nno")
                let response = try await client.response()
                #expect(response.status == status)
                #expect(response.text == "no")
                #expect(response["Sec-WebSocket-Version"] == "13")
                #expect(response.values("Connection").isEmpty)
            }
            #expect(server.peers.count == 1)
        }
    }

    @Test(
        "An upstream that switches to another protocol, or names none, is 502 (RFC 9110 §15.2.2)",
        arguments: [
            "Upgrade: h2c\r\nConnection: Upgrade\r\n", "Upgrade: websocket\r\n", "Connection: Upgrade\r\n", "",
            "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
            "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n",
        ])
    func otherProtocol(fields: String) async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            client.send(Handshake.request())
            let upstream = try await server.peer()
            _ = try await upstream.head()
            upstream.send("HTTP/1.1 101 Switching Protocols\r\n\(fields)\r\nstrange bytes")
            let response = try await client.response()
            #expect(response.status == 502)
            #expect(!client.unread.contains("strange"))
            try await upstream.closed()
            #expect(try await client.exchange(Ask.get("/nowhere")).status == 404)
        }
    }

    /// Requests that mention the upgrade without being a valid WebSocket handshake.
    static let meaningless = [
        // A WebSocket handshake requires GET without body in HTTP/1.1 (RFC 6455 §4.1).
        Handshake.request().replacing("GET ", with: "POST "),
        Handshake.request("/public/socket", "Content-Length: 4") + "body",
        Handshake.request("/public/socket", "Transfer-Encoding: chunked") + "0\r\n\r\n",
        Handshake.request().replacing("HTTP/1.1", with: "HTTP/1.0"),
        // Both fields are required (RFC 9110 §7.8).
        Handshake.request().replacing("Connection: keep-alive, Upgrade\r\n", with: ""),
        Handshake.request().replacing("Upgrade: WebSocket\r\n", with: ""),
        Handshake.request().replacing("Upgrade: WebSocket", with: "Upgrade: h2c"),
        Handshake.request().replacing("Upgrade: WebSocket", with: "Upgrade: h2c, websocket"),
        Handshake.request("/public/socket", "Upgrade: websocket"),
    ]

    @Test(
        "An invalid upgrade is ignored, and the request is an ordinary one (RFC 9110 §7.8)",
        arguments: meaningless)
    func ignored(request: String) async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            client.send(request)
            let upstream = try await server.peer()
            let head = ScriptedUpstream.Request(head: try await upstream.head())
            #expect(head.values("Upgrade").isEmpty)
            #expect(head.values("Connection").isEmpty)
            try await eventually("its body") {
                !request.hasSuffix("body") || upstream.unread == "body"
            }
            upstream.send(Reply.ok)
            #expect(try await client.response().text == "ok")
        }
    }

    @Test("A route that does not allow WebSocket ignores the upgrade; a 101 is then 502 (RFC 9110 §7.8, §15.2.2)")
    func notAllowed() async throws {
        try await RawServer.run { port, server in
            try await GatewaySetup().with(\.upstreamPort, port).run { gateway in
                let client = try await gateway.client()
                client.send(Handshake.request())
                let upstream = try await server.peer()
                let head = ScriptedUpstream.Request(head: try await upstream.head())
                #expect(head.values("Upgrade").isEmpty)
                #expect(head.values("Connection").isEmpty)
                upstream.send(Handshake.consent)
                #expect(try await client.response().status == 502)
                try await upstream.closed()
            }
        }
    }

    @Test("Client data sent before the 101 is neither lost nor forwarded early (RFC 6455 §4.1)")
    func beforeConsent() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request() + "early")
            let upstream = try await server.peer()
            _ = try await upstream.head()
            client.send(", and still early")
            // Another client's complete exchange passes meanwhile, on the same event loop.
            #expect(try await gateway.client().exchange(Ask.get("/nowhere")).status == 404)
            #expect(upstream.unread.isEmpty)
            upstream.send(Handshake.consent)
            #expect(try await upstream.text(22) == "early, and still early")
        }
    }

    @Test("Client data sent before a rejection is parsed as its next request (RFC 9112 §9.3.2)")
    func beforeRejection() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client()
            client.send(Handshake.request() + Ask.get("/nowhere"))
            let upstream = try await server.peer()
            _ = try await upstream.head()
            upstream.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            #expect(try await client.response().status == 403)
            #expect(try await client.response().status == 404)
        }
    }

    @Test("Upstream data sent directly after the 101 arrives after it (RFC 6455 §4.2.2)")
    func behindConsent() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await RawPeer.connect(port: gateway.port)
            client.send(Handshake.request())
            let upstream = try await server.peer()
            _ = try await upstream.head()
            upstream.send("HTTP/1.1 103 Early Hints\r\n\r\n" + Handshake.consent + "at once")
            #expect(try await client.head().hasPrefix("HTTP/1.1 103"))
            #expect(try await client.head().hasPrefix("HTTP/1.1 101"))
            #expect(try await client.text(7) == "at once")
        }
    }

    @Test(
        "An upstream that does not respond to the handshake in time is 504, and one that disconnects 502 (RFC 9110 §15.6.5)"
    )
    func noResponse() async throws {
        try await Tunnel.gateway(GatewaySetup().steppedTime()) { gateway, server in
            let client = try await gateway.client()
            client.send(Handshake.request())
            _ = try await server.peer().head()
            try await gateway.advance(.milliseconds(29_900))
            #expect(client.unread.isEmpty)
            try await gateway.advance(.milliseconds(200))
            #expect(try await client.response().status == 504)
            client.send(Handshake.request())
            let upstream = try await server.peer(1)
            _ = try await upstream.head()
            try await upstream.close()
            #expect(try await client.response().status == 502)
        }
    }

    @Test("A tunnel's connection is never reused for a request (RFC 9110 §7.8)")
    func notReused() async throws {
        try await Tunnel.open { tunnel in
            tunnel.client.send(Ask.get("/public/smuggled"))
            let request = Ask.get("/public/smuggled")
            #expect(try await tunnel.upstream.text(request.utf8.count) == request)
            try await tunnel.client.close()
            try await tunnel.upstream.inputEnded()
            let next = try await tunnel.gateway.client()
            next.send(Ask.get())
            let upstream = try await tunnel.server.peer(1)
            _ = try await upstream.head()
            upstream.send(Reply.ok)
            #expect(try await next.response().text == "ok")
        }
    }
}
