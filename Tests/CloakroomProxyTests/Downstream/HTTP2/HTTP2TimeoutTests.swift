import CloakroomCore
import NIOCore
import TestSupport
import Testing

/// A client that keeps a connection busy without making progress.
struct Dawdler: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Sent once.
    var before: [UInt8]
    /// Sent repeatedly.
    var bytes: @Sendable (_ round: Int) -> [UInt8]

    init(_ name: String, before: [UInt8] = [], bytes: @escaping @Sendable (_ round: Int) -> [UInt8] = { _ in [] }) {
        testDescription = name
        self.before = before
        self.bytes = bytes
    }
}

@Suite("Timeouts of an HTTP/2 connection", .serialized)
struct HTTP2TimeoutTests {
    private static let block = HTTP2Fields.get("/public/a", ("x-long", String(repeating: "a", count: 1_000))).block
    private static let open = HTTP2WireFrame.headers(101, block: HTTP2Fields.get().block, isWhole: false).bytes

    /// Header blocks that never end.
    private static let unfinished: [Dawdler] = [
        Dawdler("HEADERS without END_HEADERS", before: open),
        Dawdler("empty CONTINUATION frames, slowly", before: open) { _ in
            HTTP2WireFrame.continuation(101, block: [], isWhole: false).bytes
        },
        Dawdler("CONTINUATION frames of one byte, slowly", before: open) { round in
            HTTP2WireFrame.continuation(101, block: round == 0 ? [0x00, 0x7f, 0x7f] : [0x78], isWhole: false).bytes
        },
        Dawdler("a HEADERS frame, byte by byte") { round in
            let bytes = HTTP2WireFrame.headers(101, block: block).bytes
            return round < bytes.count - 1 ? [bytes[round]] : []
        },
        Dawdler(
            "a HEADERS frame with only its frame header",
            before: Array(HTTP2WireFrame.headers(101, block: block).bytes.prefix(9))),
        Dawdler("a CONTINUATION frame, byte by byte", before: open) { round in
            let bytes = HTTP2WireFrame.continuation(101, block: block, isWhole: true).bytes
            return round < bytes.count - 1 ? [bytes[round]] : []
        },
    ]

    /// Repeats a client's bytes until its connection is closed.
    /// - Returns: The time until the connection was closed; at most the limit.
    private static func run(
        _ dawdler: Dawdler, on client: HTTP2Client, of gateway: RunningGateway,
        pause: Duration = .milliseconds(400), limit: Duration
    ) async throws -> Duration {
        client.send(bytes: dawdler.before)
        var time = Duration.zero
        var round = 0
        while !client.isClosed, time < limit {
            let bytes = dawdler.bytes(round)
            if !bytes.isEmpty { client.send(bytes: bytes) }
            round += 1
            try await gateway.advance(pause)
            time += pause
        }
        return time
    }

    @Test(
        "Rule 57: a header block that is not complete within the header timeout ends the connection, streams or not",
        arguments: unfinished, [true, false])
    func headerBlock(_ dawdler: Dawdler, besideStream: Bool) async throws {
        try await GatewaySetup([.request]).steppedTime().configuration { $0.timeouts.header = .seconds(10) }.runHTTP2 {
            gateway, client in
            if besideStream {
                client.send(.headers(1, .get()))
                _ = try await gateway.upstream.request()
            }
            try await client.settle()
            let duration = try await Self.run(dawdler, on: client, of: gateway, limit: .seconds(12))
            expect(client.isClosed)
            #expect(duration >= .seconds(10), "\(duration)")
            expect(gateway.upstream.requests.count, equals: (besideStream ? 1 : 0))
            if besideStream { try await gateway.upstream.closed() }
        }
    }

    /// Traffic that is no request.
    private static let idle: [Dawdler] = [
        Dawdler("nothing"),
        Dawdler("SETTINGS") { _ in HTTP2WireFrame.settings().bytes },
        Dawdler("SETTINGS acknowledgements") { _ in HTTP2WireFrame.settingsAck.bytes },
        Dawdler("PING") { _ in HTTP2WireFrame.ping().bytes },
        Dawdler("PING acknowledgements") { _ in HTTP2WireFrame.ping(isAck: true).bytes },
        Dawdler("WINDOW_UPDATE") { _ in HTTP2WireFrame.windowUpdate(0, 1_000).bytes },
        Dawdler("PRIORITY") { HTTP2WireFrame.priority(UInt32(2 * $0 + 1_001)).bytes },
        Dawdler("unknown frames") { _ in HTTP2WireFrame(type: 0x2a, payload: [1, 2, 3]).bytes },
        Dawdler("half a frame header", before: [0, 0, 8, 6, 0]),
        Dawdler("a PING without its last byte", before: Array(HTTP2WireFrame.ping().bytes.dropLast())),
        Dawdler("a frame header, byte by byte", before: []) { round in
            round < 8 ? [[0, 64, 0, 0x2a, 0, 0, 0, 0][round]] : []
        },
        Dawdler("an unknown frame, byte by byte", before: [0, 64, 0, 0x2a, 0, 0, 0, 0, 0]) { _ in [0] },
    ]

    @Test(
        "Rule 57: a connection without a request is ended by the keep-alive timeout, whatever else the client sends",
        arguments: idle, [true, false])
    func keepAlive(_ dawdler: Dawdler, hasServedRequest: Bool) async throws {
        try await GatewaySetup.serving.steppedTime().configuration {
            $0.timeouts.header = .seconds(10)
            $0.timeouts.keepAlive = .seconds(12)
        }
        .runHTTP2 { gateway, client in
            if hasServedRequest {
                try await expect(client.exchange(1, .get()).text, equals: "ok")
            } else {
                try await client.settle()
            }
            let duration = try await Self.run(dawdler, on: client, of: gateway, limit: .seconds(14))
            expect(client.isClosed)
            #expect(duration >= .seconds(10), "\(duration)")
        }
    }

    @Test(
        "Rule 57: requests keep a connection open beyond the timeouts, pings between them or not",
        arguments: [true, false])
    func busy(pings: Bool) async throws {
        try await GatewaySetup.serving.steppedTime().configuration {
            $0.timeouts.header = .seconds(6)
            $0.timeouts.keepAlive = .seconds(6)
        }
        .runHTTP2 { gateway, client in
            for index in 0..<8 {
                if pings { try await client.settle() }
                try await expect(client.exchange(UInt32(2 * index + 1), .get()).text, equals: "ok")
                try await gateway.advance(.milliseconds(5_900), inStepsOf: .milliseconds(500))
            }
            expect(empty: client.goAways)
        }
    }

    @Test("Rule 57: a preface or first SETTINGS that are sent byte by byte are ended by the header timeout")
    func preface() async throws {
        try await GatewaySetup([.request]).steppedTime().configuration { $0.timeouts.header = .seconds(10) }.runHTTP2(
            .init(acknowledgesSettings: false, introducesItself: false)
        ) { gateway, client in
            let bytes =
                HTTP2WireFrame.preface
                + HTTP2WireFrame.settings((0..<100).map { HTTP2WireSetting(id: 0xff, value: $0) }).bytes
            let dawdler = Dawdler("preface") { round in round < bytes.count - 1 ? [bytes[round]] : [] }
            // The preface takes 2.4 s of it, and the timeout begins again with the SETTINGS.
            let duration = try await Self.run(
                dawdler, on: client, of: gateway, pause: .milliseconds(100), limit: .seconds(20))
            expect(client.isClosed)
            expect(duration >= .seconds(10) && duration < .seconds(14), "\(duration)")
        }
    }
}
