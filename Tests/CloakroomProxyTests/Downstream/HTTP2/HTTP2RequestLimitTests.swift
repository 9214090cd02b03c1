import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import TestSupport
import Testing

/// Encodes the header blocks of one connection with NIOHPACK, with a dynamic table.
final class HTTP2TestEncoder {
    private var encoder = HPACKEncoder(allocator: ByteBufferAllocator())

    /// A request whose additional fields are put into the dynamic table.
    func get(_ path: String = "/public/a", _ fields: [(String, String)] = []) throws -> [UInt8] {
        try block(
            [(":method", "GET"), (":scheme", "http"), (":authority", "gateway.test"), (":path", path)] + fields)
    }

    func block(_ fields: [(String, String)]) throws -> [UInt8] {
        var buffer = ByteBuffer()
        try encoder.encode(headers: HPACKHeaders(fields), to: &buffer)
        return Array(buffer.readableBytesView)
    }
}

extension HTTP2Client {
    /// Sends a header block in as many frames as are needed, and the frames after it in the same write.
    func sendSection(_ stream: UInt32, block: [UInt8], ends: Bool = true, then frames: [HTTP2WireFrame] = []) {
        send(HTTP2WireFrame.section(stream, block: block, ends: ends) + frames)
    }
}

extension HTTP2WireFrame {
    /// A header block in as many frames as are needed.
    static func section(_ stream: UInt32, block: [UInt8], ends: Bool = true) -> [HTTP2WireFrame] {
        let pieces = stride(from: 0, to: max(block.count, 1), by: 16_384).map {
            Array(block[$0..<min($0 + 16_384, block.count)])
        }
        return pieces.enumerated().map { index, piece in
            let isWhole = index == pieces.count - 1
            return index == 0
                ? .headers(stream, block: piece, ends: ends, isWhole: isWhole)
                : .continuation(stream, block: piece, isWhole: isWhole)
        }
    }
}

/// Fields that exceed a limit, and the expected status.
struct HTTP2Excess: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var status: Int
    var path = "/public/a"
    var fields: [(String, String)] = []

    static let all = [
        HTTP2Excess(
            testDescription: "20 KB", status: 431,
            fields: (0..<20).map { ("x-\($0)", String(repeating: "a", count: 1_000)) }),
        HTTP2Excess(
            testDescription: "40 KB", status: 431,
            fields: (0..<40).map { ("x-\($0)", String(repeating: "a", count: 1_000)) }),
        HTTP2Excess(
            testDescription: "one value of 30 KB", status: 431, fields: [("x", String(repeating: "a", count: 30_000))]),
        HTTP2Excess(testDescription: "150 fields", status: 431, fields: (0..<150).map { ("x-\($0)", "a") }),
        HTTP2Excess(
            testDescription: "20 KB of cookies", status: 431,
            fields: (0..<200).map { ("cookie", "c\($0)=\(String(repeating: "a", count: 100))") }),
        HTTP2Excess(
            testDescription: "a target of 9,000 bytes", status: 414,
            path: "/public/" + String(repeating: "a", count: 8_992)),
    ]
}

@Suite("Limits of one HTTP/2 request (RFC 9113 §10.5.1)", .serialized)
struct HTTP2RequestLimitTests {
    @Test(
        "Rule 55: a head above a limit gets its error response, and the next request is served with the right fields",
        arguments: HTTP2Excess.all)
    func tooLarge(_ excess: HTTP2Excess) async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client in
            let encoder = HTTP2TestEncoder()
            client.sendSection(1, block: try encoder.get("/public/a", [("x-first", "one")]))
            try await expect(client.response(1).text, equals: "ok")
            // The last fields of a block that is too large are entries of the table too.
            let block = try encoder.get(excess.path, excess.fields + [("x-last", "two")])
            client.sendSection(3, block: block)
            let rejected = try await client.response(3)
            expect(rejected.status, equals: excess.status)
            expect(rejected.isEnded)
            let next = try encoder.get("/public/a", [("x-first", "one"), ("x-last", "two")])
            client.sendSection(5, block: next)
            try await expect(client.response(5).text, equals: "ok")
            expect(empty: client.goAways)
            let requests = gateway.upstream.requests
            expect(requests.count, equals: 2)
            expect(requests.last?["X-First"], equals: "one")
            expect(requests.last?["X-Last"], equals: "two")
        }
    }

    @Test("Rule 55: the body of a request with a head above a limit is discarded, and the next request is served")
    func body() async throws {
        try await GatewaySetup.serving.runHTTP2 { gateway, client async throws in
            let large = (0..<30).map { ("x-\($0)", String(repeating: "a", count: 1_000)) }
            let block = HTTP2Fields(
                [
                    (":method", "POST"), (":scheme", "http"), (":authority", "gateway.test"), (":path", "/public/a"),
                ] + large
            ).block
            client.sendSection(
                1, block: block, ends: false, then: [.data(1, "some"), .data(1, "more", ends: true)])
            try await expect(client.response(1).status, equals: 431)
            try await expect(client.exchange(3, .get()).text, equals: "ok")
            expect(empty: client.goAways)
            expect(gateway.upstream.requests.count, equals: 1)
        }
    }

    // MARK: - Streams

    @Test("Rule 55, RFC 9113 §5.1.2: the 101st stream is rejected with REFUSED_STREAM, and the 100 others are served")
    func streams() async throws {
        let gate = Gate()
        try await GatewaySetup([.request, .wait(gate), .send(Reply.ok), .again]).runHTTP2 { gateway, client in
            try await client.settle()
            let encoder = HTTP2TestEncoder()
            let ids = Array(stride(from: UInt32(1), to: 200, by: 2))
            for id in ids { client.sendSection(id, block: try encoder.get()) }
            try await eventually("100 requests") { gateway.upstream.requests.count == 100 }
            client.sendSection(201, block: try encoder.get("/public/a", [("x-refused", "yes")]))
            try await eventually("a rejection") {
                client.stream(201).isOver || !client.goAways.isEmpty
            }
            expect(client.stream(201).reset, equals: .refusedStream)
            expect(empty: client.stream(201).sections)
            expect(empty: client.goAways)
            gate.open()
            for id in ids { try await expect(client.response(id).text, equals: "ok") }
            client.sendSection(203, block: try encoder.get("/public/a", [("x-refused", "yes")]))
            try await expect(client.response(203).text, equals: "ok")
            expect(gateway.upstream.requests.count, equals: 101)
            expect(gateway.upstream.requests.contains { $0["X-Refused"] == "yes" })
        }
    }
}
