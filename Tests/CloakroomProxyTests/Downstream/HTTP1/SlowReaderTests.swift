import CloakroomCore
import NIOCore
import NIOEmbedded
import NIOHTTP2
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("A client that sends requests and does not read the responses", .serialized)
struct SlowReaderTests {
    /// Whether the other end reads.
    private static func setReads(_ reads: Bool, _ channel: EmbeddedChannel) {
        channel.isWritable = reads
        channel.pipeline.fireChannelWritabilityChanged()
    }

    private static let request = "GET /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n"

    @Test("Pipelined requests wait for room for their responses, and only for a limited time (RFC 9112 §9.3.2)")
    func pipelined() throws {
        let connection = try EmbeddedConnection()
        let handler = try connection.http1()
        Self.setReads(false, connection.channel)
        try connection.receive(String(repeating: Self.request, count: 3))
        #expect(try connection.sent().readableBytes == 0)
        Self.setReads(true, connection.channel)
        #expect(try String(buffer: connection.sent()).split(separator: "HTTP/1.1 404").count == 3)
        Self.setReads(false, connection.channel)
        // Beyond the buffer limit nothing more is read.
        try connection.receive(String(repeating: Self.request, count: 3_000))
        #expect(handler.isPaused)
        let start = connection.context.now
        while connection.channel.isActive, handler.deadline < start + 60_000_000_000 {
            handler.deadlineExpired(now: handler.deadline)
        }
        #expect(try connection.sent().readableBytes == 0)
        #expect(!connection.channel.isActive)
    }

    @Test("In HTTP/2 the requests of a client that does not read wait, and are served when it reads (RFC 9113 §10.5)")
    func bodiless() throws {
        let connection = try EmbeddedConnection()
        _ = try connection.http2()
        try connection.channel.writeInbound(
            ByteBuffer(bytes: HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes))
        Self.setReads(false, connection.channel)
        // Their responses need no window.
        for id in stride(from: UInt32(1), to: 101, by: 2) {
            let head = HTTP2Fields.request("HEAD", "/nowhere")
            try connection.channel.writeInbound(ByteBuffer(bytes: HTTP2WireFrame.headers(id, head).bytes))
            connection.channel.embeddedEventLoop.run()
        }
        #expect(connection.channel.isActive)
        let waiting = try connection.sent().readableBytes
        #expect(waiting < 2_000, "\(waiting)")
        Self.setReads(true, connection.channel)
        connection.channel.embeddedEventLoop.run()
        let all = try connection.sent().readableBytes
        #expect(all > 49 * 9, "\(all)")
    }
}

@Suite("A slow reader slows down the sender", .serialized)
struct BackpressureTests {
    @Test(
        "A client that does not read stops the upstream; afterwards everything arrives, byte for byte",
        arguments: [true, false])
    func download(isChunked: Bool) async throws {
        let head =
            isChunked ? "HTTP/1.1 200 OK\r\n\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: \(LargeBody.total)\r\n\r\n"
        try await GatewaySetup([
            .request, .send(head), .stream(LargeBody.megabyte, times: LargeBody.total >> 20), .close,
        ])
        .run { gateway in
            let client = try await gateway.client(receiveBuffer: 65_536)
            try await client.setReading(false)
            client.send(Ask.get())
            try await eventually("the first megabyte") { (gateway.upstream.connections.first?.sent ?? 0) > 0 }
            let sent = try await waitUntilStable { gateway.upstream.connections[0].sent }
            #expect(sent < LargeBody.bound)
            try await client.setReading(true)
            try await eventually("the complete body") { client.received > LargeBody.total }
            let response = try await client.response()
            #expect(response.framing == (isChunked ? "chunked" : "length"))
            #expect(LargeBody.isWhole(response.body))
        }
    }

    @Test("An upstream that does not read stops the client; afterwards everything arrives, byte for byte")
    func upload() async throws {
        let gate = Gate()
        try await GatewaySetup([
            .head, .reading(false), .wait(gate), .reading(true), .body(LargeBody.total), .send(Reply.ok),
        ])
        .configuration { $0.routes[0].bodyLimit = LargeBody.total }
        .run { gateway, client in
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: \(LargeBody.total)\r\n\r\n")
            let upload = Task { try await client.stream(LargeBody.megabyte, times: LargeBody.total >> 20) }
            _ = try await gateway.upstream.request()
            let sent = try await waitUntilStable { client.sent }
            #expect(sent < LargeBody.bound)
            gate.open()
            #expect(try await client.response().text == "ok")
            try await upload.value
            #expect(LargeBody.isWhole(gateway.upstream.requests[0].body))
        }
    }
}
