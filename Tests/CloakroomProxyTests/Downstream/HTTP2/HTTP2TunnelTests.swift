import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

@Suite("WebSockets over HTTP/2 (RFC 8441)", .serialized)
struct HTTP2TunnelTests {
    /// A text frame from a server, and one from a client.
    private static let fromServer = Frame.text("hi")
    private static let fromClient = Frame.masked("hi")
    private static var clientBytes: [UInt8] { Array(fromClient.readableBytesView) }

    private static func gateway(
        _ adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        setup: GatewaySetup = GatewaySetup(), body: (RunningGateway, RawServer) async throws -> Void
    ) async throws {
        try await Tunnel.gateway(
            setup,
            configuration: { configuration in
                configuration.listeners[0].http2 = true
                adjust(&configuration)
            }, body: body)
    }

    /// An established tunnel on stream 1.
    private static func open(
        _ manners: HTTP2Client.HTTP2ClientOptions = .init(), endsAtOnce: Bool = false,
        setup: GatewaySetup = GatewaySetup(),
        configuration adjust: @escaping @Sendable (inout GatewayConfiguration) -> Void = { _ in },
        body: (RunningGateway, HTTP2Client, RawPeer) async throws -> Void
    ) async throws {
        try await gateway(adjust, setup: setup) { gateway, server in
            let client = try await gateway.http2(manners)
            client.send(.headers(1, .webSocket("/public/a"), ends: endsAtOnce))
            let upstream = try await server.peer()
            let head = try await upstream.head()
            expect(head.hasPrefix("GET /public/a HTTP/1.1\r\n"))
            upstream.send(Handshake.consent)
            try await eventually("the tunnel") { client.stream(1).status == 200 || client.stream(1).isOver }
            expect(client.stream(1).status, equals: 200)
            try await body(gateway, client, upstream)
        }
    }

    @Test("§5: an extended CONNECT becomes an upgrade upstream, and earlier data waits for the response")
    func handshake() async throws {
        try await Self.gateway { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false), .data(1, Self.clientBytes))
            let upstream = try await server.peer()
            let head = try await upstream.head().lowercased()
            expect(head.hasPrefix("get /public/a http/1.1\r\n"))
            expect(head.contains("\r\nupgrade: websocket\r\n"))
            expect(head.contains("\r\nconnection: upgrade\r\n"))
            expect(head.contains("\r\nsec-websocket-key: "))
            expect(head.contains("\r\nsec-websocket-version: 13\r\n"))
            expect(!head.contains("content-length"))
            expect(!head.contains("transfer-encoding"))
            expect(upstream.unread, equals: "")
            upstream.send(Handshake.consent)
            try await expect(upstream.text(8), equals: String(buffer: Self.fromClient))
            try await eventually("the response") { client.stream(1).status != nil || client.isClosed }
            let response = client.stream(1)
            expect(response.status, equals: 200)
            expect(response["sec-websocket-protocol"], equals: "chat")
            expect(response.head?["sec-websocket-accept"], equals: [])
            expect(response.head?["upgrade"], equals: [])
            expect(response.head?["connection"], equals: [])
        }
    }

    @Test("§5: on a route that rewrites paths, the fields of the response change back")
    func rewriting() async throws {
        let rewrite = try PathRewrite(from: try PathPattern("/public/*"), to: try PathPattern("/*"))
        try await Self.gateway({ $0.routes[0].action = .forward(upstream: 0, rewrite) }) { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            let upstream = try await server.peer()
            let head = try await upstream.head()
            expect(head.hasPrefix("GET /a HTTP/1.1\r\n"))
            upstream.send(
                Handshake.consent.replacing("Sec-WebSocket-Protocol: chat", with: "Set-Cookie: a=1; Path=/"))
            try await eventually("the response") { client.stream(1).status != nil || client.isClosed }
            expect(client.stream(1)["set-cookie"], equals: "a=1; Path=/public")
        }
    }

    @Test(
        "§5: the client's own key and accept fields are dropped: the upstream gets one key, and the tunnel is established"
    )
    func ownKey() async throws {
        try await Self.gateway { gateway, server in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/public/a")
            fields.lines +=
                HTTP2Fields([
                    ("sec-websocket-key", "bWluZW1pbmVtaW5lbWluZQ=="), ("sec_websocket_key", "mine"),
                    ("sec-websocket-accept", "mine"),
                ]).lines
            client.send(.headers(1, fields, ends: false))
            let upstream = try await server.peer()
            let request = ScriptedUpstream.Request(head: try await upstream.head())
            expect(request.values("Sec-WebSocket-Key").count, equals: 1)
            expect(request.values("Sec-WebSocket-Version"), equals: ["13"])
            expect(!request.head.contains("mine"))
            expect(!request.head.contains("bWluZ"))
            upstream.send(Handshake.consent)
            try await eventually("the tunnel") { client.stream(1).status == 200 || client.stream(1).isOver }
            expect(client.stream(1).status, equals: 200)
        }
    }

    @Test("§5: two versions are 400, and the upstream receives nothing")
    func twoVersions() async throws {
        try await Self.gateway { gateway, server in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/public/a")
            fields.lines += HTTP2Fields([("sec-websocket-version", "8")]).lines
            client.send(.headers(1, fields, ends: false))
            try await expect(client.response(1).status, equals: 400)
            expect(empty: server.peers)
        }
    }

    @Test("§5: the upstream's FIN becomes END_STREAM, and later data of the client is still delivered")
    func upstreamEnds() async throws {
        try await Self.open { _, client, upstream in
            upstream.send(Self.fromServer)
            try await upstream.endOutput()
            let response = try await client.response(1)
            expect(response.body, equals: Self.fromServer)
            expect(response.isEnded)
            client.send(.data(1, Self.clientBytes))
            try await expect(upstream.text(8), equals: String(buffer: Self.fromClient))
            client.send(.data(1, ends: true))
            try await upstream.inputEnded()
            try await client.settle()
            expect(client.stream(1).reset, equals: nil)
            expect(empty: client.goAways)
        }
    }

    @Test(
        "§5: the client's END_STREAM half-closes the upstream connection; later data of the upstream is still delivered"
    )
    func clientEnds() async throws {
        try await Self.open { _, client, upstream in
            client.send(.data(1, Self.clientBytes, ends: true))
            try await upstream.inputEnded()
            expect(upstream.unread, equals: String(buffer: Self.fromClient))
            upstream.send(Self.fromServer)
            try await eventually("the upstream's frame") { client.stream(1).bodyCount == 4 }
            expect(!client.stream(1).isOver)
            try await upstream.endOutput()
            let response = try await client.response(1)
            expect(response.isEnded)
            expect(response.reset, equals: nil)
            try await upstream.inputEnded()
        }
    }

    @Test("§5: a client that ends the stream with the request itself has closed its side of the tunnel")
    func endsWithFields() async throws {
        try await Self.open(endsAtOnce: true) { _, client, upstream in
            try await upstream.inputEnded()
            upstream.send(Self.fromServer)
            try await upstream.endOutput()
            let response = try await client.response(1)
            expect(response.body, equals: Self.fromServer)
            expect(response.isEnded)
        }
    }

    @Test("§5: a client that resets the stream closes the upstream connection, and no other stream")
    func clientResets() async throws {
        try await Self.open { _, client, upstream in
            client.send(.reset(1))
            try await upstream.inputEnded()
            try await expect(client.exchange(3, .get("/nowhere")).status, equals: 404)
        }
    }

    @Test("§5: an upstream that resets its connection resets or ends the stream, and no other")
    func upstreamResets() async throws {
        try await Self.open { _, client, upstream in
            try await upstream.close()
            try await expect(client.response(1).isOver)
            client.send(.data(1, Self.clientBytes), .data(1, Self.clientBytes, ends: true))
            try await expect(client.exchange(3, .get("/nowhere")).status, equals: 404)
        }
    }

    @Test("§4: another protocol is 501, and so is a route that does not allow WebSocket", arguments: [true, false])
    func notImplemented(isKnown: Bool) async throws {
        try await GatewaySetup.serving.configuration { configuration in
            if !isKnown {
                for index in configuration.routes.indices { configuration.routes[index].allowsWebSocket = true }
            }
        }
        .runHTTP2 { gateway, client async throws in
            let name = isKnown ? "websocket" : "connect-udp"
            client.send(.headers(1, .webSocket("/public/a", protocol: name), ends: false))
            try await expect(client.response(1).status, equals: 501)
            try await expect(client.reset(1), equals: .noError)
            client.send(.headers(3, .webSocket("/nowhere", protocol: name), ends: false))
            try await expect(client.response(3).status, equals: 404)
            client.send(.headers(5, .webSocket("/private/a", protocol: name), ends: false))
            try await expect(client.response(5).status, equals: 401)
            expect(empty: gateway.upstream.requests)
            try await expect(client.exchange(7, .get()).text, equals: "ok")
        }
    }

    @Test(
        "The response of an upstream that rejects the upgrade is forwarded; instead of 200, which opens no tunnel, it is 502",
        arguments: [(403, 403), (426, 426), (200, 502)])
    func rejected(status: Int, forwarded: Int) async throws {
        try await Self.gateway { gateway, server in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false), .data(1, Self.clientBytes))
            let upstream = try await server.requested()
            upstream.send("HTTP/1.1 \(status) No\r\nContent-Length: 2\r\n\r\nno")
            let response = try await client.response(1)
            // To the client, any 2xx would mean that the tunnel is established.
            expect(response.status, equals: forwarded)
            if status == forwarded {
                expect(response.text, equals: "no")
                try await expect(client.reset(1), equals: .noError)
            }
            expect(upstream.unread, equals: "")
        }
    }

    @Test(
        "§4, RFC 9113 §8.5: an extended CONNECT without scheme, path or authority, or with a length, is a stream error",
        arguments: [":scheme", ":path", ":authority", "content-length"])
    func malformed(name: String) async throws {
        try await Self.gateway { gateway, server in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/public/a")
            fields.lines.removeAll { $0.name == Array(name.utf8) }
            if name == "content-length" { fields.lines += HTTP2Fields([(name, "5")]).lines }
            client.send(.headers(1, fields, ends: false))
            try await expect(client.reset(1), equals: .protocolError)
            expect(empty: server.peers)
        }
    }

    @Test("An idle tunnel is closed after its timeout, an active one is not")
    func silence() async throws {
        try await Self.open(
            setup: GatewaySetup().steppedTime(), configuration: { $0.timeouts.tunnelIdle = .seconds(60) }
        ) { gateway, client, upstream in
            for round in 1...4 {
                try await gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
                upstream.send(Self.fromServer)
                try await eventually("a frame") { client.stream(1).bodyCount == 4 * round }
            }
            try await gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            expect(!client.stream(1).isOver)
            try await gateway.advance(.milliseconds(200))
            try await expect(client.response(1).isOver)
            try await upstream.inputEnded()
        }
    }

    @Test("Rule 84: what precedes a message that is too large is forwarded, also if it arrived in the same read")
    func messageTooBig() async throws {
        try await Self.open(configuration: { $0.routes[0].stream.message = 10 }) { _, client, upstream in
            // Part of the head was forwarded, so that no Close frame can follow.
            client.send(.data(1, Self.clientBytes + [0x82]), .data(1, [0x80 | 11, 0, 0, 0, 0]))
            try await expect(upstream.rest(), equals: ByteBuffer(bytes: Self.clientBytes + [0x82]))
            let response = try await client.response(1)
            expect(response.isEnded)
            expect(Frame.closeCode(response.body), equals: 1_009)
        }
    }

    @Test("A drain ends tunnels with Close code 1001 (RFC 6455 §7.4.1) to both sides")
    func drain() async throws {
        try await Self.open { gateway, client, upstream in
            await gateway.beginDrain()
            let response = try await client.response(1)
            expect(response.isEnded)
            expect(Frame.closeCode(response.body), equals: 1_001)
            let rest = try await upstream.rest()
            expect(Frame.maskedCloseCode(rest), equals: 1_001)
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("A client that does not read the tunnel stops the upstream; the data it reads later is complete")
    func clientDoesNotRead() async throws {
        let megabyte = ByteBuffer(repeating: 0x61, count: 1 << 20)
        let manners = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)], keepsBodies: false)
        try await Self.open(manners) { _, client, upstream in
            let writing = Task {
                try await upstream.stream(megabyte, times: 64)
                try await upstream.endOutput()
            }
            #expect(try await waitUntilStable { upstream.sent } < 40 << 20)
            try await expect(client.exchange(3, .request("HEAD", "/nowhere")).status, equals: 404)
            client.send(.windowUpdate(1, 1 << 20))
            try await writing.value
            try await expect(client.response(1).bodyCount, equals: 64 << 20)
        }
    }

    @Test("Occasional empty DATA frames are no flood, however long the tunnel lasts (RFC 9113 §6.1)")
    func emptyFrames() async throws {
        try await Self.open { _, client, upstream in
            for _ in 0..<10 {
                client.send(.data(1), .data(1, Self.clientBytes))
                let text = try await upstream.text(8)
                expect(text, equals: String(buffer: Self.fromClient))
            }
            expect(empty: client.goAways)
        }
    }
}
