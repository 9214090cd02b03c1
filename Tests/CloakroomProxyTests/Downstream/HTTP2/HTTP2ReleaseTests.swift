import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Objects released by an HTTP/2 connection")
struct HTTP2ReleaseTests {
    @Test("Streams are released after their requests, at once or with their connection")
    func released() throws {
        let (channel, handler) = try Self.connect()
        // More concurrent streams than the number that is cached for reuse.
        var bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        let ids = Array(stride(from: UInt32(1), to: 99, by: 2))
        for id in ids { bytes += HTTP2WireFrame.headers(id, .get("/nowhere")).bytes }
        // The requests begin when the read is complete.
        channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        expect(handler.streams.count { $0 != nil }, equals: ids.count)
        let gone = handler.streams.compactMap { $0 }.map { Weak($0, $0.exchange) }
        channel.pipeline.fireChannelReadComplete()
        channel.embeddedEventLoop.run()
        expect(handler.streams.allSatisfy { $0 == nil })
        expect(gone.filter { $0.exchange == nil }.count, equals: ids.count - handler.recycledStreams.count)

        _ = try channel.finish(acceptAlreadyClosed: true)
        expect(gone.allSatisfy { $0.stream == nil && $0.exchange == nil })
    }

    @Test("A broken connection is closed after the linger time, even if it had streams and the client keeps it open")
    func lingering() throws {
        let (channel, handler) = try Self.connect()
        let bytes =
            HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes + HTTP2WireFrame.headers(1, .get("/nowhere")).bytes
            + HTTP2WireFrame.data(0, "a").bytes
        channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        expect(channel.isActive)
        #expect(handler.deadline < .max)
        handler.deadlineExpired(now: handler.deadline)
        channel.embeddedEventLoop.run()
        expect(!channel.isActive)
        _ = try channel.finish(acceptAlreadyClosed: true)
    }

    @Test("The bytes of a response that waits for its window return to the budget when the connection ends")
    func waitingResponse() throws {
        let (channel, handler) = try Self.connect()
        let bytes =
            HTTP2WireFrame.preface + HTTP2WireFrame.settings([.initialWindow(0)]).bytes
            + HTTP2WireFrame.headers(1, .get("/nowhere")).bytes
        channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        channel.pipeline.fireChannelReadComplete()
        channel.embeddedEventLoop.run()
        #expect(handler.context.responseBytes > 0)
        _ = try channel.finish(acceptAlreadyClosed: true)
        expect(handler.context.responseBytes, equals: 0)
    }

    @Test("A connection that ends returns its large window")
    func bodyWindow() throws {
        let (channel, handler) = try Self.connect()
        var bytes =
            HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
            + HTTP2WireFrame.headers(1, .post("/nowhere"), ends: false).bytes
        for _ in 0..<3 { bytes += HTTP2WireFrame.data(1, [UInt8](repeating: 0x61, count: 16_384)).bytes }
        channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
        expect(handler.hasBodyWindow)
        _ = try channel.finish(acceptAlreadyClosed: true)
        var windows = 0
        while handler.context.takeBodyWindow() { windows += 1 }
        expect(windows, equals: LoopContext.bodyMemory / LoopContext.bodyWindow)
    }

    @Test("RFC 9113 §6.8: the final GOAWAY is due in time, even if the client does not acknowledge the first")
    func unacknowledged() throws {
        let (channel, handler) = try Self.connect()
        channel.pipeline.fireChannelRead(ByteBuffer(bytes: HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes))
        handler.drain()
        expect(handler.phase, equals: .goAwaySent)
        expect(handler.deadline, equals: handler.context.now + HTTP2DownstreamHandler.announcementTime)
        handler.deadlineExpired(now: handler.deadline)
        expect(handler.phase, equals: .draining)
        // What the client still sends is read: a reset could overtake the last response.
        channel.embeddedEventLoop.run()
        expect(handler.phase == .lingering && channel.isActive)
        _ = try channel.finish(acceptAlreadyClosed: true)
    }

    @Test("Rule 77: a request body that follows its response, which waits for a window, is not kept")
    func bodyAfterResponse() throws {
        let (channel, handler) = try Self.connect()
        var bytes =
            HTTP2WireFrame.preface + HTTP2WireFrame.settings([.initialWindow(0)]).bytes
            + HTTP2WireFrame.headers(1, .post("/nowhere"), ends: false).bytes
        for _ in 0..<3 {
            channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
            channel.pipeline.fireChannelReadComplete()
            let stream = try require(handler.streams.compactMap { $0 }.first)
            expect(stream.exchange?.isActive, equals: false)
            expect(stream.pendingBody.storageCapacity, equals: 0)
            bytes = HTTP2WireFrame.data(1, "abc").bytes
        }
        _ = try channel.finish(acceptAlreadyClosed: true)
    }

    /// A connection without sockets, whose client does not close.
    private static func connect() throws -> (EmbeddedChannel, HTTP2DownstreamHandler) {
        let config = try GatewaySetup().makeConfig()
        let channel = EmbeddedChannel()
        let context = LoopContext(eventLoop: channel.embeddedEventLoop, config: config, loopCount: 1)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try channel.pipeline.syncOperations.addHandler(HalfClose())
        try DownstreamPipeline.addHTTP2(
            DownstreamConnectionInfo(channel: channel, context: context, isTLS: false, listener: 0))
        return (channel, try channel.pipeline.syncOperations.handler(type: HTTP2DownstreamHandler.self))
    }

    /// Closing the output does not close the channel, as with a socket.
    private final class HalfClose: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            if mode == .output { promise?.succeed() } else { context.close(mode: mode, promise: promise) }
        }
    }

    private final class Weak {
        weak var stream: HTTP2Stream?
        weak var exchange: Exchange?

        init(_ stream: HTTP2Stream, _ exchange: Exchange?) {
            self.stream = stream
            self.exchange = exchange
        }
    }
}
