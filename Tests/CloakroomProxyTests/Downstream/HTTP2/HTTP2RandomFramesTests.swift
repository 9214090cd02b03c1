import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// Generates sequences of mostly valid frames with random errors.
struct FrameMutator {
    private var random: SeededGenerator

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    /// The bytes of one connection.
    mutating func connection() -> [UInt8] {
        var bytes = HTTP2WireFrame.preface
        if !chance(20) { bytes += HTTP2WireFrame.settings().bytes }
        for _ in 0..<Int.random(in: 1...16, using: &random) { bytes += frame().bytes }
        if chance(3) {
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
            }
        }
        if chance(5) { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
        return bytes
    }

    private mutating func chance(_ of: Int) -> Bool { Int.random(in: 0..<of, using: &random) == 0 }

    private mutating func bytes(_ most: Int) -> [UInt8] {
        (0..<Int.random(in: 0...most, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
    }

    private mutating func stream() -> UInt32 {
        chance(12)
            ? [0, 2, 0x7fff_ffff, 0xffff_ffff, 8].randomElement(using: &random) ?? 0
            : UInt32.random(in: 0...5, using: &random) * 2 + 1
    }

    private mutating func frame() -> HTTP2WireFrame {
        let id = stream()
        var frame: HTTP2WireFrame =
            switch Int.random(in: 0..<16, using: &random) {
            case 0...3: .headers(id, fields(), ends: !chance(3))
            case 4: .headers(id, block: fields().block + bytes(12), ends: !chance(3), isWhole: !chance(3))
            case 5...6:
                .data(id, bytes(300), ends: chance(3), padding: chance(3) ? .random(in: 0...255, using: &random) : nil)
            case 7: .settings([HTTP2WireSetting(id: .random(in: 0...9, using: &random), value: number())])
            case 8: .windowUpdate(id, Int(number() & 0x7fff_ffff))
            case 9: .reset(id, HTTP2ErrorCode(networkCode: Int.random(in: 0...20, using: &random)))
            case 10: .ping(isAck: chance(2))
            case 11: .goAway(last: id)
            case 12: .priority(id, dependsOn: stream())
            case 13: .continuation(id, block: bytes(40), isWhole: !chance(2))
            case 14: .pushPromise(id, promised: stream(), .get())
            default:
                HTTP2WireFrame(type: .random(in: 0...12, using: &random), stream: id, payload: bytes(40))
            }
        if chance(12) { frame.flags = .random(in: 0...255, using: &random) }
        if chance(20) { frame.claimedLength = Int.random(in: 0...20_000, using: &random) }
        if chance(20) { frame.payload = bytes(40) }
        return frame
    }

    private mutating func number() -> UInt32 {
        [0, 1, 100, 16_384, 65_535, 0x7fff_ffff, 0x8000_0000, .max].randomElement(using: &random) ?? 0
    }

    private mutating func fields() -> HTTP2Fields {
        var fields: HTTP2Fields =
            switch Int.random(in: 0..<6, using: &random) {
            case 0: .get("/nowhere")
            case 1: .post("/public/a", ("content-length", "\(Int.random(in: 0...400, using: &random))"))
            case 2: .request("HEAD")
            case 3: .webSocket("/public/a")
            case 4: .post()
            default: .get()
            }
        if chance(8) { fields.lines.shuffle(using: &random) }
        if chance(8) { fields.lines.append((bytes(8), bytes(20))) }
        if chance(12) { fields.lines.remove(at: Int.random(in: fields.lines.indices, using: &random)) }
        return fields
    }
}

@Suite("Random frames (RFC 9113 §10)", .serialized)
struct HTTP2RandomFramesTests {
    @Test("They neither crash the gateway nor leave streams or requests open", arguments: 1...8 as ClosedRange<UInt64>)
    func random(seed: UInt64) async throws {
        // One reply per forwarded request: a response, half of one, a protocol switch, a close.
        let switches = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        try await GatewaySetup(
            [.head, .send(Reply.ok), .again],
            [.head, .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), .close],
            [.head, .send(switches)], [.head, .close], [.head, .send(Reply.ok), .again]
        )
        .http2 { configuration in
            configuration.limits.connectionsPerAddress = 0
            for index in configuration.routes.indices { configuration.routes[index].allowsWebSocket = true }
        }
        .run { gateway in
            var mutator = FrameMutator(seed: seed)
            for round in 0..<400 {
                let client = try await gateway.http2(.init(introducesItself: false))
                try? await client.channel.writeAndFlush(ByteBuffer(bytes: mutator.connection())).get()
                // Some clients stay until their frames have been processed, others disconnect before.
                if round % 4 != 0 { try await Task.sleep(for: .milliseconds(4)) }
                try await client.close()
            }
            try await expect(gateway.serves())
            // The drain finds nothing to wait for.
            await gateway.beginDrain()
            try await gateway.stopped()
        }
    }
}
