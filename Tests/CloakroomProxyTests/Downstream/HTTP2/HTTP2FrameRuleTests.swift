import CloakroomCore
import NIOCore
import NIOHTTP2
import TestSupport
import Testing

/// Frames that break a rule, the rule, and the allowed error codes.
struct BrokenFrames: Sendable, CustomTestStringConvertible {
    var rule: String
    var frames: [HTTP2WireFrame]
    var codes: [HTTP2ErrorCode]
    var testDescription: String { rule }

    init(_ rule: String, _ codes: HTTP2ErrorCode..., frames: [HTTP2WireFrame]) {
        self.rule = rule
        self.codes = codes
        self.frames = frames
    }
}

@Suite("Frames that break the rules of HTTP/2", .serialized)
struct HTTP2FrameRuleTests {
    private static let serves: [ScriptedUpstream.Step] = [.request, .send(Reply.ok), .again]
    private static let open = HTTP2WireFrame.headers(1, .post(), ends: false)

    private static func raw(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8] = []) -> HTTP2WireFrame
    {
        HTTP2WireFrame(type: type, flags: flags, stream: stream, payload: payload)
    }

    private static func setting(_ id: UInt16, _ value: UInt32) -> HTTP2WireFrame {
        .settings([HTTP2WireSetting(id: id, value: value)])
    }

    private static let zeros = Array(repeating: UInt8(0), count: 17_000)

    private static let frameErrors: [BrokenFrames] = [
        BrokenFrames("§6.1: DATA on stream 0", .protocolError, frames: [.data(0, "a")]),
        BrokenFrames("§6.2: HEADERS on stream 0", .protocolError, frames: [.headers(0, .get())]),
        BrokenFrames("§6.3: PRIORITY on stream 0", .protocolError, frames: [.priority(0)]),
        BrokenFrames("§6.4: RST_STREAM on stream 0", .protocolError, frames: [.reset(0)]),
        BrokenFrames("§6.5: SETTINGS on a stream", .protocolError, frames: [raw(4, 0, 1)]),
        BrokenFrames("§6.7: PING on a stream", .protocolError, frames: [raw(6, 0, 1, Array(zeros.prefix(8)))]),
        BrokenFrames("§6.8: GOAWAY on a stream", .protocolError, frames: [raw(7, 0, 1, Array(zeros.prefix(8)))]),
        BrokenFrames(
            "§6.10: CONTINUATION without HEADERS", .protocolError,
            frames: [.continuation(1, block: HTTP2Fields.get().block, isWhole: true)]),
        BrokenFrames(
            "§6.10: CONTINUATION on stream 0", .protocolError, frames: [.continuation(0, block: [], isWhole: true)]),
        BrokenFrames(
            "§6.2: another frame within a header block", .protocolError,
            frames: [.headers(1, block: HTTP2Fields.get().block, isWhole: false), .ping()]),
        BrokenFrames(
            "§6.10: CONTINUATION of another stream", .protocolError,
            frames: [
                .headers(1, block: HTTP2Fields.get().block, isWhole: false), .continuation(3, block: [], isWhole: true),
            ]),
        BrokenFrames("§6.4: RST_STREAM of 3 bytes", .frameSizeError, frames: [open, raw(3, 0, 1, [0, 0, 0])]),
        BrokenFrames("§6.5: SETTINGS of 5 bytes", .frameSizeError, frames: [raw(4, 0, 0, [0, 1, 0, 0, 0])]),
        BrokenFrames(
            "§6.5: an acknowledgement with content", .frameSizeError, frames: [raw(4, 1, 0, [0, 1, 0, 0, 0, 0])]),
        BrokenFrames("§6.7: PING of 7 bytes", .frameSizeError, frames: [raw(6, 0, 0, Array(zeros.prefix(7)))]),
        BrokenFrames("§6.8: GOAWAY of 7 bytes", .frameSizeError, frames: [raw(7, 0, 0, Array(zeros.prefix(7)))]),
        BrokenFrames("§6.9: WINDOW_UPDATE of 3 bytes", .frameSizeError, frames: [raw(8, 0, 0, [0, 0, 1])]),
        BrokenFrames("§4.2: DATA beyond the largest frame", .frameSizeError, frames: [open, raw(0, 0, 1, zeros)]),
        BrokenFrames("§4.2: HEADERS beyond the largest frame", .frameSizeError, frames: [raw(1, 5, 1, zeros)]),
        BrokenFrames(
            "§6.1: DATA with more padding than payload", .protocolError, frames: [open, raw(0, 8, 1, [9, 0])]),
        BrokenFrames(
            "§6.1: padded DATA without a padding length", .protocolError, .frameSizeError,
            frames: [open, raw(0, 8, 1)]),
        BrokenFrames(
            "§6.2: HEADERS with more padding than payload", .protocolError, frames: [raw(1, 13, 1, [9, 0])]),
    ]

    private static let connectionErrors: [BrokenFrames] = [
        BrokenFrames("§6.5.2: ENABLE_PUSH of 2", .protocolError, frames: [setting(2, 2)]),
        BrokenFrames("§6.5.2: INITIAL_WINDOW_SIZE of 2^31", .flowControlError, frames: [setting(4, 1 << 31)]),
        BrokenFrames("§6.5.2: MAX_FRAME_SIZE of 16,383", .protocolError, frames: [setting(5, 16_383)]),
        BrokenFrames("§6.5.2: MAX_FRAME_SIZE of 2^24", .protocolError, frames: [setting(5, 1 << 24)]),
        BrokenFrames("RFC 8441 §3: ENABLE_CONNECT_PROTOCOL of 2", .protocolError, frames: [setting(8, 2)]),
        BrokenFrames("§6.9: WINDOW_UPDATE of 0 for the connection", .protocolError, frames: [.windowUpdate(0, 0)]),
        BrokenFrames(
            "§6.9.1: the connection's window beyond 2^31-1", .flowControlError, frames: [.windowUpdate(0, 0x7fff_ffff)]),
        BrokenFrames(
            "§6.9.2: a setting that takes a stream's window beyond 2^31-1", .flowControlError,
            frames: [open, .windowUpdate(1, 0x7fff_0000), setting(4, 0x7fff_ffff)]),
        BrokenFrames("§5.1.1: an even stream", .protocolError, frames: [.headers(2, .get())]),
        BrokenFrames(
            "§5.1.1: a stream id below an earlier one", .protocolError, .streamClosed,
            frames: [.headers(5, .get()), .headers(3, .get())]),
        BrokenFrames(
            "§8.4: PUSH_PROMISE from a client", .protocolError, frames: [open, .pushPromise(1, promised: 2, .get())]),
        BrokenFrames("§5.1: DATA on an idle stream", .protocolError, frames: [.data(1, "a")]),
        BrokenFrames("§5.1: RST_STREAM on an idle stream", .protocolError, frames: [.reset(1)]),
        BrokenFrames("§5.1: WINDOW_UPDATE on an idle stream", .protocolError, frames: [.windowUpdate(1, 10)]),
        BrokenFrames(
            "§4.3: an index beyond the table", .compressionError, frames: [.headers(1, block: [0xff, 0x80, 0x10])]),
        BrokenFrames("§4.3: the index 0", .compressionError, frames: [.headers(1, block: [0x80])]),
        BrokenFrames(
            "§4.3: an integer without its end", .compressionError, frames: [.headers(1, block: [0x00, 0x7f, 0xff])]),
        BrokenFrames(
            "§4.3: a string without its end", .compressionError, frames: [.headers(1, block: [0x00, 0x05, 0x61])]),
        BrokenFrames(
            "RFC 7541 §5.2: a Huffman code with the end of string in it", .compressionError,
            frames: [.headers(1, block: [0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 0x61])]),
        BrokenFrames(
            "RFC 7541 §4.2: a table larger than allowed", .compressionError,
            frames: [.headers(1, block: [0x3f, 0xe1, 0xff, 0x03] + HTTP2Fields.get().block)]),
    ]

    @Test(
        "RFC 9113: the connection ends with the correct error code and is closed; others are served",
        arguments: frameErrors + connectionErrors)
    func connectionError(_ broken: BrokenFrames) async throws {
        try await GatewaySetup([.head]).http2().run { gateway in
            let client = try await gateway.http2()
            try await client.settle()
            client.send(broken.frames)
            let code = try await client.error()
            #expect(code.map { broken.codes.contains($0) } ?? false, "\(code.map { "\($0)" } ?? "no GOAWAY")")
            try await client.closed()
            #expect(try await gateway.serves())
            try await gateway.metric("cloakroom_rejections_total{reason=\"http2_connection\"} 1")
        }
    }

    @Test(
        "RFC 9113 §5.1: frames on closed streams are errors",
        arguments: [
            BrokenFrames("DATA after END_STREAM", .streamClosed, frames: [.data(1, "a")]),
            BrokenFrames("HEADERS after END_STREAM", .streamClosed, .protocolError, frames: [.headers(1, .get())]),
        ], [true, false])
    func closedStream(_ broken: BrokenFrames, isResponseComplete: Bool) async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            if isResponseComplete {
                gate.open()
                try await client.response(1)
            }
            client.send(broken.frames)
            try await eventually("a reset, or the connection's end") {
                client.isClosed || client.stream(1).reset != nil
            }
            let code = client.stream(1).reset ?? client.goAways.last?.code
            #expect(code.map { broken.codes.contains($0) } ?? false, "\(code.map { "\($0)" } ?? "nothing")")
            #expect(try await gateway.serves())
        }
    }

    @Test(
        "RFC 9113 §6.9: errors of one stream do not affect other streams",
        arguments: [
            BrokenFrames("§6.9: WINDOW_UPDATE of 0", .protocolError, frames: [.windowUpdate(1, 0)]),
            BrokenFrames("§6.9.1: a window beyond 2^31-1", .flowControlError, frames: [.windowUpdate(1, 0x7fff_ffff)]),
            BrokenFrames("§6.3: PRIORITY of 4 bytes", .frameSizeError, frames: [raw(2, 0, 1, [0, 0, 0, 3])]),
            BrokenFrames(
                "RFC 7540 §5.3.1: a stream that depends on itself", .protocolError,
                frames: [raw(2, 0, 1, [0, 0, 0, 1, 15])]),
        ])
    func streamError(_ broken: BrokenFrames) async throws {
        try await GatewaySetup([.request], Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            client.send(.headers(1, .get()))
            _ = try await gateway.upstream.request()
            client.send(broken.frames)
            let code = try await client.reset(1)
            #expect(code.map { broken.codes.contains($0) } ?? false)
            // The exchange ends, and its upstream connection is closed.
            try await gateway.upstream.closed()
            #expect(try await client.exchange(3, .get()).text == "ok")
            #expect(client.goAways.isEmpty)
        }
    }

    @Test(
        "RFC 9113 §4.1, §5.5: unknown elements are ignored",
        arguments: [
            BrokenFrames("§4.1: an unknown frame", frames: [raw(0xbe, 0xff, 0, [1, 2, 3])]),
            BrokenFrames("§4.1: an unknown frame on an idle stream", frames: [raw(0xbe, 0xff, 77, [1, 2, 3])]),
            BrokenFrames("§6.5.2: an unknown setting", frames: [setting(0xbeef, 7)]),
            BrokenFrames("§4.1: unknown flags", frames: [raw(6, 0xfe, 0, Array(zeros.prefix(8)))]),
            BrokenFrames("§6.7: an unsolicited PING acknowledgement", frames: [.ping(7, isAck: true)]),
            BrokenFrames("§5.3.2: PRIORITY on an idle stream", frames: [.priority(99)]),
            BrokenFrames("§6.4: RST_STREAM on a closed stream", frames: [.reset(1), .reset(1)]),
            BrokenFrames("§6.9: WINDOW_UPDATE on a closed stream", frames: [.windowUpdate(1, 10)]),
            BrokenFrames("§6.1: an empty DATA frame", frames: [.headers(3, .post(), ends: false), .data(3)]),
        ])
    func ignored(_ frames: BrokenFrames) async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            #expect(try await client.exchange(1, .get()).text == "ok")
            client.send(frames.frames)
            #expect(try await client.exchange(101, .get()).text == "ok")
            #expect(client.goAways.isEmpty)
        }
    }

    @Test("RFC 9113 §6.2, §6.10: a header block in several frames, with padding and priority, is one field section")
    func continuation() async throws {
        try await GatewaySetup(Self.serves).http2().run { gateway in
            let client = try await gateway.http2()
            let block = HTTP2Fields.get("/public/a", ("x-long", String(repeating: "a", count: 3_000))).block
            let third = block.count / 3
            client.send(
                Self.raw(1, 0x29, 1, [5, 0, 0, 0, 0, 15] + block.prefix(third) + [0, 0, 0, 0, 0]),
                .continuation(1, block: Array(block[third..<(2 * third)]), isWhole: false),
                .continuation(1, block: Array(block[(2 * third)...]), isWhole: true))
            #expect(try await client.response(1).text == "ok")
            #expect(gateway.upstream.requests[0]["X-Long"]?.count == 3_000)
        }
    }

    @Test("Frames that arrive byte by byte are parsed as the same frames")
    func byteByByte() async throws {
        let expected = "hello"
        try await GatewaySetup([.head, .body(5), .send(Reply.ok), .again]).http2().run { gateway in
            let client = try await gateway.http2(.init(acknowledgesSettings: false, introducesItself: false))
            let bytes =
                HTTP2WireFrame.preface + HTTP2WireFrame.settings([.initialWindow(100)]).bytes
                + HTTP2WireFrame.headers(1, .post("/public/a", ("content-length", "5")), ends: false).bytes
                + HTTP2WireFrame.data(1, Array(expected.utf8), ends: true, padding: 3).bytes
            for byte in bytes { try await client.channel.writeAndFlush(ByteBuffer(bytes: [byte])).get() }
            #expect(try await client.response(1).text == "ok")
            #expect(gateway.upstream.requests[0].text == expected)
        }
    }
}
