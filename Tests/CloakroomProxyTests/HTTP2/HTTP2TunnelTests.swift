import CloakroomCore
import NIOCore
import NIOHTTP2
import Testing

@Suite("WebSockets over HTTP/2 (RFC 8441)", .serialized)
struct HTTP2TunnelTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    /// Bytes that are a frame of a WebSocket: the text "hi".
    private static let hello = "\u{01}\u{02}hi"

    private static func setup(_ scripts: [ScriptedUpstream.Step]..., timeouts: TimeoutsPlan = TimeoutsPlan())
        -> GatewaySetup
    {
        var setup = GatewaySetup(serves)
        setup.scripts = scripts
        return setup.http2 { plan in
            plan.timeouts = timeouts
            for index in plan.routes.indices { plan.routes[index].allowsWebSocket = plan.routes[index].name != "token" }
        }
    }

    /// What an upstream that agrees sends. The gateway made up the key, so that the answer to it cannot be known here.
    private static let script: [ScriptedUpstream.Step] = [.head, .acceptWebSocket]

    @Test("§5: an extended CONNECT is an upgrade upstream; 200, and bytes go both ways, with both ends half closed")
    func tunnel() async throws {
        let script = Self.script + [.body(4), .send(Self.hello), .body(4), .send(Self.hello)]
        try await Self.setup(script).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            try await eventually("the tunnel") { client.stream(1).status == 200 || client.stream(1).isOver }
            let request = try await gateway.upstream.request()
            #expect(request.line == "GET /public/a HTTP/1.1")
            #expect(request["Upgrade"]?.lowercased() == "websocket")
            #expect(request["Connection"]?.lowercased() == "upgrade")
            #expect(request["Sec-WebSocket-Key"]?.count == 24)
            #expect(request["Sec-WebSocket-Version"] == "13")
            #expect(request["Content-Length"] == nil)
            #expect(request["Transfer-Encoding"] == nil)
            #expect(client.stream(1).head?["sec-websocket-accept"] == [])
            #expect(client.stream(1).head?["upgrade"] == [])
            client.send(.data(1, Self.hello))
            try await eventually("an echo") { client.stream(1).bodyCount == 4 }
            // The client has said all; the upstream has not.
            client.send(.data(1, Self.hello, ends: true))
            try await eventually("more") { client.stream(1).bodyCount == 8 }
            #expect(!client.stream(1).isOver)
        }
    }

    @Test("§5: the upstream's end is END_STREAM, and what the client says after it still arrives")
    func upstreamEnds() async throws {
        let gate = Gate()
        let script = Self.script + [.send(Self.hello), .closeOutput, .body(4), .wait(gate)]
        try await Self.setup(script).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            let answer = try await client.answer(1)
            #expect(answer.status == 200)
            #expect(answer.text == Self.hello)
            #expect(answer.isEnded)
            client.send(.data(1, Self.hello))
            try await eventually("the client's word") { gateway.upstream.connections[0].received > 0 && gateway.upstream.requests[0].text == Self.hello }
            client.send(.data(1, ends: true))
            try await gateway.upstream.closed()
            #expect(client.stream(1).reset == nil)
            gate.open()
        }
    }

    @Test("§5: the client's end reaches the upstream as the end of its input; then the upstream's ends the stream")
    func clientEnds() async throws {
        let gate = Gate()
        let script = Self.script + [.body(4), .wait(gate), .send(Self.hello), .close]
        try await Self.setup(script).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            try await eventually("the tunnel") { client.stream(1).status == 200 }
            client.send(.data(1, Self.hello, ends: true))
            try await eventually("the client's word") { gateway.upstream.requests[0].text == Self.hello }
            gate.open()
            let answer = try await client.answer(1)
            #expect(answer.text == Self.hello)
            #expect(answer.isEnded)
            #expect(answer.reset == nil)
        }
    }

    @Test("§5.1: a client whose side ends with the request half-closes the tunnel")
    func endsWithFields() async throws {
        let script = Self.script + [.end, .send(Self.hello), .close]
        try await Self.setup(script).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a")))
            let answer = try await client.answer(1)
            #expect(answer.status == 200)
            #expect(answer.text == Self.hello)
            #expect(answer.isEnded)
        }
    }

    @Test("§5: a client that resets the stream closes the upstream's connection, and no other stream")
    func reset() async throws {
        try await Self.setup(Self.script, Self.serves).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            try await eventually("the tunnel") { client.stream(1).status == 200 }
            client.send(.reset(1))
            try await gateway.upstream.closed()
            #expect(try await client.exchange(3, .get()).text == "ok")
        }
    }

    @Test("§4: another protocol is 501")
    func unknownProtocol() async throws {
        try await Self.setup(Self.serves).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a", protocol: "connect-udp"), ends: false))
            #expect(try await client.answer(1).status == 501)
            #expect(try await client.reset(1) == .noError)
            #expect(try await client.exchange(3, .get()).text == "ok")
            #expect(gateway.upstream.requests.count == 1)
        }
    }

    @Test("A route that allows no WebSocket is 501, and the upstream sees nothing")
    func notAllowed() async throws {
        try await Self.setup(Self.serves).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/token/a"), ends: false))
            #expect(try await client.answer(1).status == 501)
            client.send(.headers(3, .webSocket("/nowhere"), ends: false))
            #expect(try await client.answer(3).status == 404)
            #expect(gateway.upstream.requests.isEmpty)
        }
    }

    @Test("Without a session a protected route is 401")
    func unauthorized() async throws {
        try await Self.setup(Self.serves).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/private/a"), ends: false))
            #expect(try await client.answer(1).status == 401)
            #expect(gateway.upstream.requests.isEmpty)
        }
    }

    @Test("An upstream that refuses the upgrade is relayed with its status and body", arguments: [200, 403, 426])
    func refused(status: Int) async throws {
        let reply = "HTTP/1.1 \(status) No\r\nContent-Length: 2\r\n\r\nno"
        try await Self.setup([.head, .send(reply)], Self.serves).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            let answer = try await client.answer(1)
            // 200 would say that the tunnel stands.
            #expect(status == 200 ? (answer.status == 502 || answer.reset != nil) : answer.status == status)
            if status != 200 { #expect(answer.text == "no") }
            #expect(try await client.exchange(3, .get()).text == "ok")
        }
    }

    @Test("A body length with an extended CONNECT is malformed (§4)")
    func withLength() async throws {
        try await Self.setup(Self.serves).run { gateway in
            let client = try await gateway.http2()
            var fields = HTTP2Fields.webSocket("/public/a")
            fields.lines += HTTP2Fields([("content-length", "5")]).lines
            client.send(.headers(1, fields, ends: false))
            #expect(try await client.reset(1) == .protocolError)
            #expect(gateway.upstream.requests.isEmpty)
        }
    }

    @Test("A tunnel that nobody uses is closed in time")
    func silence() async throws {
        try await Self.setup(Self.script, timeouts: TimeoutsPlan(tunnelIdle: .milliseconds(300))).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            #expect(try await client.answer(1).isOver)
            try await gateway.upstream.closed()
        }
    }

    @Test("A drain ends tunnels, with a close frame for both sides")
    func drain() async throws {
        try await Self.setup(Self.script).run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            try await eventually("the tunnel") { client.stream(1).status == 200 }
            await gateway.beginDrain()
            let answer = try await client.answer(1)
            #expect(answer.isEnded)
            // Close, with 1001 (RFC 6455 §5.5.1, §7.4.1).
            #expect(Array(answer.body.readableBytesView.prefix(4)) == [0x88, 0x02, 0x03, 0xe9])
            try await client.closed()
            try await gateway.upstream.closed()
            try await gateway.stopped()
        }
    }

    @Test("A client that does not read the tunnel stops the upstream; what it reads then is whole")
    func backpressure() async throws {
        let megabyte = ByteBuffer(repeating: 0x61, count: 1 << 20)
        let script = Self.script + [.stream(megabyte, times: 64), .close]
        try await Self.setup(script, Self.serves).run { gateway in
            let client = try await gateway.http2(.init(settings: [.initialWindow(0)], keepsBodies: false))
            client.send(.headers(1, .webSocket("/public/a"), ends: false))
            try await eventually("the tunnel") { client.stream(1).status == 200 }
            #expect(try await settled { gateway.upstream.connections[0].sent } < 40 << 20)
            client.send(.windowUpdate(1, 1 << 20))
            #expect(try await client.answer(1).bodyCount == 64 << 20)
        }
    }
}
