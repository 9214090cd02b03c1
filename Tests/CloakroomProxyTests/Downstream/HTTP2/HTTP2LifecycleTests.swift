import CloakroomCore
import CloakroomProxy
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("The lifecycle of an HTTP/2 connection", .serialized)
struct HTTP2LifecycleTests {
    private let gate = Gate()

    /// Begins a drain, and waits until a connection has noticed it.
    private static func drain(_ gateway: RunningGateway, _ client: HTTP2Client) async throws {
        await gateway.beginDrain()
        try await eventually("the first GOAWAY") { client.goAways.contains(.announcement) }
    }

    // MARK: - Start

    @Test("RFC 9113 §3.4, §6.5.2: the server sends its settings: streams, field sizes, windows, extended CONNECT")
    func settings() async throws {
        try await GatewaySetup.serving.configuration { $0.limits.streamsPerConnection = 77 }.runHTTP2 {
            gateway, client in
            try await eventually("settings") { !client.settings.isEmpty }
            expect(client.settings[3], equals: 77)
            #expect(client.settings[4] ?? 0 >= 65_535)
            #expect(client.settings[6] ?? 0 >= 16_384)
            expect(client.settings[8], equals: 1)
            #expect(client.room(on: 1) >= 65_535)
        }
    }

    @Test("RFC 9113 §3.3: a listener without TLS supports HTTP/1.1, and HTTP/2 only if it is configured")
    func otherProtocols() async throws {
        try await GatewaySetup.serving.http2().run { gateway in
            try await expect(gateway.client().exchange(Ask.get()).text, equals: "ok")
            try await expect(gateway.http2().exchange(1, .get()).text, equals: "ok")
            let post = try await gateway.client()
            try await expect(post.exchange(Ask.post(body: "a")).text, equals: "ok")
        }
        try await GatewaySetup.serving.run { gateway, client in
            let response = try await client.exchange(String(decoding: HTTP2WireFrame.preface, as: UTF8.self))
            expect(response.status == 505 || response.status == 400)
            try await client.closed()
        }
    }

    @Test(
        "RFC 9113 §3.4: a connection without a request within the timeout is closed",
        arguments: [0, 10, 24, 33])
    func slowPreface(count: Int) async throws {
        try await GatewaySetup.serving.steppedTime().http2 {
            $0.timeouts.header = .seconds(10)
            $0.timeouts.keepAlive = .seconds(20)
        }
        .run { gateway in
            // An acknowledgement would come before its own SETTINGS, which is an error.
            let client = try await gateway.http2(.init(acknowledgesSettings: false, introducesItself: false))
            let bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
            client.send(bytes: Array(bytes.prefix(count)))
            // The header timeout applies until SETTINGS have arrived.
            try await gateway.advance(.milliseconds(count == 10 || count == 24 ? 9_900 : 19_900))
            expect(!client.isClosed)
            try await gateway.advance(.milliseconds(200))
            try await client.closed()
            try await expect(gateway.serves())
        }
    }

    // MARK: - End

    @Test("RFC 9113 §6.8: an idle connection is closed with GOAWAY")
    func idle() async throws {
        try await GatewaySetup.serving.steppedTime().runHTTP2 { gateway, client in
            try await expect(client.exchange(1, .get()).text, equals: "ok")
            try await gateway.advance(.milliseconds(59_900), inStepsOf: .seconds(10))
            expect(empty: client.goAways)
            try await gateway.advance(.milliseconds(200))
            try await client.closed()
            expect(client.goAways, equals: [HTTP2GoAway(last: 1, code: .noError)])
        }
    }

    @Test("RFC 9113 §6.8: a drain sends GOAWAY first; open streams finish, then the connection is closed")
    func drain() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).runHTTP2 { gateway, client in
            client.send(.headers(1, .get()), .headers(3, .get()))
            try await eventually("two requests") { gateway.upstream.requests.count == 2 }
            try await Self.drain(gateway, client)
            try await eventually("the final GOAWAY") { client.goAways.count == 2 }
            expect(client.goAways[1], equals: HTTP2GoAway(last: 3, code: .noError))
            gate.open()
            try await expect(client.response(1).text, equals: "ok")
            try await expect(client.response(3).text, equals: "ok")
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("RFC 9113 §6.8: a request that crosses the first GOAWAY is served or safe to repeat; earlier ones continue")
    func crossing() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).runHTTP2(.init(respondsToPings: false))
        { gateway, client in
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            try await Self.drain(gateway, client)
            client.send(
                .headers(3, .get("/nowhere")), .headers(5, .post("/nowhere"), ends: false), .data(5, "a", ends: true))
            let response = try await client.response(3)
            expect(response.status, equals: 404)
            try await expect(client.response(5).status, equals: 404)
            // The client has received the first GOAWAY now.
            client.send(.ping(0, isAck: true))
            try await eventually("the final GOAWAY") { client.goAways.count == 2 }
            expect(client.goAways[1], equals: HTTP2GoAway(last: 5, code: .noError))
            gate.open()
            try await expect(client.response(1).text, equals: "ok")
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("RFC 9113 §6.8: a request after the final GOAWAY is ignored or rejected; earlier ones continue")
    func tooLate() async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).runHTTP2 { gateway, client in
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            try await Self.drain(gateway, client)
            try await eventually("the final GOAWAY") { client.goAways.count == 2 }
            client.send(
                .headers(3, .get()), .headers(5, .get()), .headers(7, .post(), ends: false))
            try await client.settle()
            gate.open()
            try await expect(client.response(1).text, equals: "ok")
            try await client.closed()
            expect(client.goAways.allSatisfy { $0.code == .noError })
            for id in [3, 5, 7] as [UInt32] {
                expect(empty: client.stream(id).sections)
                expect(client.stream(id).reset == nil || client.stream(id).reset == .refusedStream)
            }
            expect(gateway.upstream.requests.count, equals: 1)
            try await gateway.stopped()
        }
    }

    @Test("RFC 9113 §5.4.1: a client that breaks the rules during a drain is disconnected at once")
    func errorWhileDraining() async throws {
        try await GatewaySetup([.request]).configuration { $0.timeouts.drain = .seconds(600) }.runHTTP2 {
            gateway, client in
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            try await Self.drain(gateway, client)
            try await eventually("the final GOAWAY") { client.goAways.count == 2 }
            client.send(.data(0, "a"))
            try await client.closed()
            try await gateway.upstream.closed()
            try await gateway.stopped()
        }
    }

    @Test("A drain waits neither for an idle client nor for one that does not acknowledge pings")
    func idleDrain() async throws {
        try await GatewaySetup.serving.http2().run { gateway in
            let used = try await gateway.http2()
            try await expect(used.exchange(1, .get()).text, equals: "ok")
            let silent = try await gateway.http2(.init(respondsToPings: false))
            try await expect(silent.exchange(1, .get()).text, equals: "ok")
            let unused = try await gateway.http2()
            try await unused.settle()
            await gateway.beginDrain()
            try await used.closed()
            try await unused.closed()
            try await silent.closed()
            expect(used.goAways, equals: [.announcement, HTTP2GoAway(last: 1, code: .noError)])
            try await gateway.stopped()
        }
    }

    @Test(
        "RFC 9113 §6.8: the GOAWAY of a client is acknowledged, and does not delay a drain", arguments: [true, false])
    func clientGoodbye(drains: Bool) async throws {
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again])
            .configuration {
                $0.timeouts.keepAlive = .seconds(drains ? 3_600 : 1)
                $0.timeouts.drain = .seconds(600)
            }.runHTTP2 { gateway, client in
                client.send(.headers(1, .get()))
                _ = try await gateway.upstream.request()
                client.send(.goAway())
                try await client.settle()
                gate.open()
                try await expect(client.response(1).text, equals: "ok")
                let other = try await gateway.http2()
                other.send(.goAway())
                try await other.settle()
                if drains { await gateway.beginDrain() }
                try await client.closed()
                try await other.closed()
                if drains { try await gateway.stopped() }
            }
    }

    @Test("A drain does not abort the last response to a client that reads slowly")
    func slowReaderWhileDraining() async throws {
        let total = 24 << 20
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n"
        let script: [ScriptedUpstream.Step] = [
            .request, .send(head), .stream(ByteBuffer(repeating: 0x61, count: 1 << 20), times: 24), .again,
        ]
        try await GatewaySetup(script).http2().run { gateway in
            let manners = HTTP2Client.HTTP2ClientOptions(
                settings: [.initialWindow(0x7fff_ffff)], sendsWindowUpdates: false, keepsBodies: false,
                receiveBuffer: 16_384,
                reads: false)
            let client = try await gateway.http2(manners)
            client.send(.windowUpdate(0, 0x7fff_0000), .headers(1, .get()))
            _ = try await gateway.upstream.request()
            _ = try await waitUntilStable { gateway.upstream.connections[0].sent }
            await gateway.beginDrain()
            // Reads in small steps, so that the gateway always has unsent data.
            while !client.stream(1).isOver, !client.isClosed {
                client.channel.read()
                try await Task.sleep(for: .microseconds(200))
            }
            expect(client.stream(1).bodyCount, equals: total)
            expect(client.stream(1).isEnded)
            try? await client.setReading(true)
            try await client.closed()
        }
    }
}
