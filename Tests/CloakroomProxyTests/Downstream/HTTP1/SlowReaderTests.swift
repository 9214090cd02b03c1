import NIOCore
import NIOEmbedded
import NIOHPACK
import NIOHTTP2
import Synchronization
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
        try expect(connection.sent().readableBytes, equals: 0)
        Self.setReads(true, connection.channel)
        try expect(String(buffer: connection.sent()).split(separator: "HTTP/1.1 404").count, equals: 3)
        Self.setReads(false, connection.channel)
        // Beyond the buffer limit nothing more is read.
        try connection.receive(String(repeating: Self.request, count: 3_000))
        expect(handler.isPaused)
        let start = connection.context.now
        while connection.channel.isActive, handler.deadline < start + 60_000_000_000 {
            handler.deadlineExpired(now: handler.deadline)
        }
        try expect(connection.sent().readableBytes, equals: 0)
        expect(!connection.channel.isActive)
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
        expect(connection.channel.isActive)
        let waiting = try connection.sent().readableBytes
        #expect(waiting < 2_000, "\(waiting)")
        Self.setReads(true, connection.channel)
        connection.channel.embeddedEventLoop.run()
        let all = try connection.sent().readableBytes
        #expect(all > 49 * 9, "\(all)")
    }

    /// Requests for redirects, each of 6 bytes after the first one, whose responses have more than 11 KB.
    private static func redirected(_ count: Int, _ socket: FullSocket) throws -> (
        EmbeddedConnection, HTTP2DownstreamHandler
    ) {
        let path = try PathPattern("/old/*")
        let template = RedirectTemplate(try PathRewrite(from: path, to: try PathPattern("/new/*")))
        let config = try GatewaySetup().configuration {
            $0.limits.streamsPerConnection = count
            var route = Route(name: "old", methods: ["GET"], pattern: path, requiresAuthorization: false)
            route.action = .redirect(template)
            $0.routes.append(route)
        }.makeConfig()
        let connection = try EmbeddedConnection(config)
        let handler = try connection.http2(behind: socket)
        // :method, :scheme and :authority; then :path, which is inserted into the table (RFC 7541 §6.2.1).
        let start: [UInt8] = [0x82, 0x86, 0x01, 1, 0x61]
        let target = Array("/old/".utf8) + [UInt8](repeating: UInt8(ascii: "["), count: 3_900)
        let first = start + [0x44] + HTTP2Fields.integer(target.count, prefix: 7) + target
        var bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        for index in 0..<count {
            bytes += HTTP2WireFrame.headers(UInt32(2 * index + 1), block: index == 0 ? first : start + [0xbe]).bytes
        }
        try connection.channel.writeInbound(ByteBuffer(bytes: bytes))
        return (connection, handler)
    }

    /// A socket with little room, whose client reads only when ``read(_:)`` is called.
    private final class FullSocket: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer
        private(set) var unread = 0
        private(set) var mostUnread = 0
        private(set) var mostStorage = 0

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            let bytes = Self.unwrapOutboundIn(data)
            unread += bytes.readableBytes
            mostUnread = max(mostUnread, unread)
            mostStorage = max(mostStorage, bytes.storageCapacity)
            context.write(data, promise: promise)
            if unread > 65_536, let channel = context.channel as? EmbeddedChannel, channel.isWritable {
                SlowReaderTests.setReads(false, channel)
            }
        }

        func read(_ channel: EmbeddedChannel) {
            unread = 0
            SlowReaderTests.setReads(true, channel)
            channel.embeddedEventLoop.run()
        }
    }

    @Test("Rule 80: 1,000 redirects for a client that does not read wait as requests, and all arrive when it reads")
    func redirects() throws {
        let socket = FullSocket()
        let (connection, handler) = try Self.redirected(1_000, socket)
        #expect(handler.outputStorage <= 131_072)
        connection.channel.embeddedEventLoop.run()
        #expect(handler.touched.count > 980)
        let recorder = HTTP2Recorder(.init())
        for _ in 0..<1_000 where socket.unread > 0 {
            var sent = try connection.sent()
            _ = recorder.receive(&sent)
            socket.read(connection.channel)
        }
        #expect(socket.mostStorage <= 131_072)
        #expect(socket.mostUnread <= 131_072)
        expect(empty: handler.touched)
        expect(connection.context.responseBytes, equals: 0)
        let streams = recorder.state.withLock { $0.streams }
        let location = "/new/" + String(repeating: "%5B", count: 3_900)
        expect(
            streams.values.count { $0.isEnded && $0.status == 308 && $0.head?["location"] == [location] }, equals: 1_000
        )
    }

    @Test("Rule 80: requests that wait for a client that does not read end in time")
    func unreadRedirects() throws {
        let (connection, handler) = try Self.redirected(100, FullSocket())
        connection.channel.embeddedEventLoop.run()
        #expect(handler.touched.count > 80)
        // Their heads, of 3,900 bytes for 6, count with the responses that wait.
        #expect(connection.context.responseBytes >= handler.touched.count * 3_900)
        expect(connection.context.responseBytes, equals: handler.outboundBytes)
        let start = connection.context.now
        while handler.streams.contains(where: { $0 != nil }), handler.deadline < start + 60_000_000_000 {
            handler.deadlineExpired(now: handler.deadline)
        }
        expect(handler.streams.allSatisfy { $0 == nil })
        expect(connection.context.responseBytes, equals: 0)
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
            expect(response.framing, equals: (isChunked ? "chunked" : "length"))
            expect(LargeBody.isWhole(response.body))
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
            try await expect(client.response().text, equals: "ok")
            try await upload.value
            expect(LargeBody.isWhole(gateway.upstream.requests[0].body))
        }
    }
}
