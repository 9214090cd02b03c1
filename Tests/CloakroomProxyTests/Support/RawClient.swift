import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestSupport

/// A client that sends arbitrary bytes and reads responses as they arrive.
final class RawClient: Sendable {
    private struct State {
        var unread = ByteBuffer()
        var received = 0
        var sent = 0
        var isClosed = false
        var wasReset = false
    }

    private let channel: any Channel
    private let state: Recorder

    private final class Recorder: Sendable {
        let state = Mutex(State())
    }

    private init(channel: any Channel, state: Recorder) {
        self.channel = channel
        self.state = state
    }

    /// Connects to loopback.
    /// - Parameter receiveBuffer: The size of the socket's receive buffer in bytes, for a client that does not read.
    static func connect(port: Int, receiveBuffer: Int? = nil) async throws -> RawClient {
        let recorder = Recorder()
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(recorder))
                }
            }
        if let receiveBuffer {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: .init(receiveBuffer))
        }
        return RawClient(channel: try await bootstrap.connect(host: "127.0.0.1", port: port).get(), state: recorder)
    }

    /// Whether the other side has closed the connection.
    var isClosed: Bool { state.state.withLock { $0.isClosed } }
    /// Whether the connection was closed by a reset.
    var wasReset: Bool { state.state.withLock { $0.wasReset } }
    /// The number of bytes received.
    var received: Int { state.state.withLock { $0.received } }
    /// The number of bytes that the system has accepted for sending.
    var sent: Int { state.state.withLock { $0.sent } }
    /// Received bytes that belong to no response read so far.
    var unread: String { state.state.withLock { String(buffer: $0.unread) } }

    /// Sends text.
    func send(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    /// Sends the same bytes repeatedly, as fast as the system accepts them.
    func stream(_ bytes: ByteBuffer, times: Int) async throws {
        for _ in 0..<times {
            try await channel.writeAndFlush(bytes).get()
            state.state.withLock { $0.sent += bytes.readableBytes }
        }
    }

    /// Pauses or resumes reading.
    func setReading(_ isReading: Bool) async throws {
        try await channel.setOption(.autoRead, value: isReading).get()
    }

    /// The next response, interim ones included.
    /// - Throws: ``ResponseTruncated`` if the connection ends before it does.
    func response(isToHead: Bool = false) async throws -> TestResponse {
        let box = Mutex<TestResponse?>(nil)
        try await eventually("a response") {
            let response = try self.state.state.withLock { state in
                try TestResponse.read(&state.unread, isToHead: isToHead, isClosed: state.isClosed)
            }
            guard let response else { return false }
            box.withLock { $0 = response }
            return true
        }
        guard let response = box.withLock({ $0 }) else { throw ResponseTruncated() }
        return response
    }

    /// Sends a request and reads its response.
    func exchange(_ request: String, isToHead: Bool = false) async throws -> TestResponse {
        send(request)
        return try await response(isToHead: isToHead)
    }

    /// Waits until the other side has closed the connection.
    func closed() async throws {
        try await eventually("the end of the connection") { self.isClosed }
    }

    /// Closes the connection.
    func close() async throws {
        try await channel.close().get()
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let recorder: Recorder

        init(_ recorder: Recorder) {
            self.recorder = recorder
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            recorder.state.withLock { state in
                state.received += bytes.readableBytes
                state.unread.writeBuffer(&bytes)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            if (error as? IOError)?.errnoCode == ECONNRESET { recorder.state.withLock { $0.wasReset = true } }
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            recorder.state.withLock { $0.isClosed = true }
        }
    }
}
