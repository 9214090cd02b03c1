import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

@Suite("Flow control in HTTP/2 (RFC 9113 §5.2)", .serialized)
struct HTTP2FlowControlTests {
    private static let megabyte = ByteBuffer(repeating: 0x61, count: 1 << 20)
    private static let largest = 0x7fff_ffff
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]

    private static func responses(_ count: Int) -> [ScriptedUpstream.Step] {
        let body = String(repeating: "a", count: count)
        return [.request, .send("HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n\r\n\(body)"), .again]
    }

    private static func streams(megabytes: Int) -> [ScriptedUpstream.Step] {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(megabytes << 20)\r\n\r\n"
        return [.request, .send(head), .stream(megabyte, times: megabytes), .again]
    }

    @Test("§5.2.1: a stream without window blocks no other stream and pauses its upstream; later its body arrives")
    func slowStream() async throws {
        let total = 64 << 20
        try await GatewaySetup(Self.streams(megabytes: 64), Self.serves).http2().run { gateway in
            let manners = HTTP2Client.HTTP2ClientOptions(settings: [.initialWindow(0)], keepsBodies: false)
            let client = try await gateway.http2(manners)
            client.send(.headers(1, .get()))
            try await eventually("the response head") { client.stream(1).status == 200 }
            let sent = try await waitUntilStable { gateway.upstream.connections[0].sent }
            // The capacity of the sockets between gateway and upstream.
            #expect(sent < 40 << 20)
            expect(client.stream(1).bodyCount, equals: 0)
            client.send(.headers(3, .get()), .windowUpdate(3, 100))
            try await expect(client.response(3).text == "ok" || client.stream(3).bodyCount == 2)
            client.send(.windowUpdate(1, 1 << 20))
            let response = try await client.response(1)
            expect(response.bodyCount, equals: total)
            expect(response.isEnded)
        }
    }

    @Test("§5.2.2: unsent data of a stream that was reset does not consume the connection window")
    func resetGivesBack() async throws {
        let window = 24 << 20
        try await GatewaySetup(Self.streams(megabytes: 64)).http2().run { gateway in
            let manners = HTTP2Client.HTTP2ClientOptions(
                settings: [.initialWindow(Self.largest)], sendsWindowUpdates: false, keepsBodies: false,
                receiveBuffer: 65_536)
            let client = try await gateway.http2(manners)
            client.send(.windowUpdate(0, window - 65_535))
            try await client.setReading(false)
            for id in stride(from: UInt32(1), to: 9, by: 2) { client.send(.headers(id, .get())) }
            try await eventually("four upstream connections") { gateway.upstream.connections.count == 4 }
            _ = try await waitUntilStable { gateway.upstream.connections.reduce(0) { $0 + $1.sent } }
            for id in stride(from: UInt32(1), to: 9, by: 2) { client.send(.reset(id)) }
            try await eventually("closed upstreams") { gateway.upstream.connections.allSatisfy(\.isClosed) }
            try await client.setReading(true)
            client.send(.headers(9, .get()))
            _ = try await waitUntilStable { client.bodyCount }
            expect(client.bodyCount, equals: window)
        }
    }

    @Test("A client that reads slowly but steadily receives the complete body")
    func slowReader() async throws {
        try await GatewaySetup(Self.responses(200_000)).steppedTime().configuration {
            $0.timeouts.bodyIdle = .seconds(15)
        }
        .runHTTP2(.init(settings: [.initialWindow(0)], sendsWindowUpdates: false)) { gateway, client in
            client.send(.windowUpdate(0, 1 << 20), .headers(1, .get()))
            try await eventually("the response head") { client.stream(1).status == 200 }
            for _ in 0..<20 {
                try await gateway.advance(.seconds(2))
                client.send(.windowUpdate(1, 10_000))
            }
            let response = try await client.response(1)
            expect(response.reset, equals: nil)
            expect(response.bodyCount, equals: 200_000)
        }
    }

    @Test("§5.2.1: a body for an upstream that does not read stays in the client and blocks no other stream")
    func slowUpstream() async throws {
        let gate = Gate()
        let total = 16 << 20
        let deaf: [ScriptedUpstream.Step] = [
            .head, .reading(false), .wait(gate), .reading(true), .body(total), .send(Reply.ok), .again,
        ]
        try await GatewaySetup(deaf, Self.serves).configuration {
            $0.limits.body = total
            $0.limits.requestBuffer = 0
        }
        .runHTTP2 { gateway, client in
            client.send(.headers(1, .post("/public/a", ("content-length", "\(total)")), ends: false))
            _ = try await gateway.upstream.request()
            let upload = Task { try await client.upload(1, total) }
            _ = try await waitUntilStable { client.room(on: 1) }
            client.send(.headers(3, .post("/public/a", ("content-length", "200000")), ends: false))
            try await client.upload(3, 200_000)
            try await expect(client.response(3).text, equals: "ok")
            gate.open()
            try await upload.value
            try await expect(client.response(1).text, equals: "ok")
        }
    }

    @Test("§6.9: the window of a discarded body is returned at once, even if the response waits for a window")
    func discardedBody() async throws {
        try await GatewaySetup.serving.configuration { $0.limits.body = 1_000 }.runHTTP2(
            .init(settings: [.initialWindow(0)], sendsWindowUpdates: false)
        ) { gateway, client in
            client.send(.headers(1, .post("/public/a", ("content-length", "100000")), ends: false))
            try await eventually("the response head") { client.stream(1).status == 413 }
            let piece = Array(repeating: UInt8(0x61), count: 16_384)
            for _ in 0..<3 { client.send(.data(1, piece)) }
            try await eventually("the window") { client.room(on: 3) >= 60_000 }
        }
    }
}
