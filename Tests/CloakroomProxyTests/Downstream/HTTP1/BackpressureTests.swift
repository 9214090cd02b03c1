import CloakroomCore
import NIOCore
import TestSupport
import Testing

@Suite("A slow reader slows down the sender", .serialized)
struct BackpressureTests {
    private static let total = 64 << 20
    /// The capacity of all buffers on the path: four socket buffers, each up to some megabytes.
    private static let bound = 40 << 20

    /// A megabyte in which no two sections are equal.
    private static let megabyte: ByteBuffer = {
        var generator = SeededGenerator(seed: 7)
        var bytes = ByteBuffer()
        for _ in 0..<(1 << 17) { bytes.writeInteger(generator.next()) }
        return bytes
    }()

    private static func isWhole(_ body: ByteBuffer) -> Bool {
        var body = body
        guard body.readableBytes == total else { return false }
        while let part = body.readSlice(length: 1 << 20) {
            guard part == megabyte else { return false }
        }
        return true
    }

    @Test(
        "A client that does not read stops the upstream; afterwards everything arrives, byte for byte",
        arguments: [true, false])
    func download(isChunked: Bool) async throws {
        let head =
            isChunked ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: \(Self.total)\r\n\r\n"
        try await GatewaySetup([.request, .send(head), .stream(Self.megabyte, times: Self.total >> 20), .close])
            .run { gateway in
                let client = try await gateway.client(receiveBuffer: 65_536)
                try await client.setReading(false)
                client.send(Ask.get())
                try await eventually("the first megabyte") { (gateway.upstream.connections.first?.sent ?? 0) > 0 }
                let sent = try await waitUntilStable { gateway.upstream.connections[0].sent }
                #expect(sent < Self.bound)
                try await client.setReading(true)
                try await eventually("the complete body") { client.received > Self.total }
                let response = try await client.response()
                #expect(response.framing == (isChunked ? "chunked" : "length"))
                #expect(Self.isWhole(response.body))
            }
    }

    @Test("An upstream that does not read stops the client; afterwards everything arrives, byte for byte")
    func upload() async throws {
        let gate = Gate()
        try await GatewaySetup([
            .head, .reading(false), .wait(gate), .reading(true), .body(Self.total), .send(Reply.ok),
        ])
        .configuration { $0.routes[0].bodyLimit = Self.total }
        .run { gateway in
            let client = try await gateway.client()
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: \(Self.total)\r\n\r\n")
            let upload = Task { try await client.stream(Self.megabyte, times: Self.total >> 20) }
            _ = try await gateway.upstream.request()
            let sent = try await waitUntilStable { client.sent }
            #expect(sent < Self.bound)
            gate.open()
            #expect(try await client.response().text == "ok")
            try await upload.value
            #expect(Self.isWhole(gateway.upstream.requests[0].body))
        }
    }
}
