import Glibc
package import NIOCore
import NIOPosix
import Synchronization

/// One end of a connection, controlled by the test: it sends and records arbitrary bytes, and can close each direction
/// separately.
package final class RawPeer: Sendable {
    fileprivate struct State {
        var unread = ByteBuffer()
        var received = 0
        var sent = 0
        var hasInputEnded = false
        var isClosed = false
        var wasReset = false
    }

    fileprivate final class Recorder: Sendable {
        let state = Mutex(State())
    }

    private let channel: any Channel
    private let recorder: Recorder

    fileprivate init(channel: any Channel, recorder: Recorder) {
        self.channel = channel
        self.recorder = recorder
    }

    /// Connects to loopback.
    /// - Parameters:
    ///   - receiveBuffer: The size of the socket's receive buffer in bytes, for a peer that does not read.
    ///   - readSize: The number of bytes that each ``read()`` reads at most; `nil` reads all bytes as they arrive.
    ///   - allowsHalfClosure: Whether the connection stays open after the other side has closed its sending direction.
    ///   - text: What is sent at once.
    ///   - handlers: What the bytes pass before they are recorded, and after they are sent: TLS, for example.
    package static func connect(
        port: Int, receiveBuffer: Int? = nil, readSize: Int? = nil, allowsHalfClosure: Bool = true,
        sending text: String = "", through handlers: @escaping @Sendable () throws -> [any ChannelHandler] = { [] }
    ) async throws -> RawPeer {
        let recorder = Recorder()
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.allowRemoteHalfClosure, value: allowsHalfClosure)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(try handlers() + [RecordingHandler(recorder)])
                }
            }
        if let receiveBuffer {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: .init(receiveBuffer))
        }
        if let readSize {
            bootstrap =
                bootstrap
                .channelOption(.autoRead, value: false)
                .channelOption(.maxMessagesPerRead, value: 1)
                .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: readSize))
        }
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
        let peer = RawPeer(channel: channel, recorder: recorder)
        if !text.isEmpty { peer.send(text) }
        return peer
    }

    /// The number of bytes received.
    package var received: Int { recorder.state.withLock { $0.received } }
    /// The number of bytes that the system has accepted for sending.
    package var sent: Int { recorder.state.withLock { $0.sent } }
    /// Received bytes that were not consumed.
    package var unread: String { recorder.state.withLock { String(buffer: $0.unread) } }
    /// Whether the other side has closed its sending direction.
    package var hasInputEnded: Bool { recorder.state.withLock { $0.hasInputEnded || $0.isClosed } }
    /// Whether the connection is closed in both directions.
    package var isClosed: Bool { recorder.state.withLock { $0.isClosed } }
    /// Whether the other side reset the connection.
    package var wasReset: Bool { recorder.state.withLock { $0.wasReset } }

    package func send(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    package func send(_ bytes: ByteBuffer) { channel.writeAndFlush(bytes, promise: nil) }

    /// Sends the same bytes repeatedly, as fast as the system accepts them.
    package func stream(_ bytes: ByteBuffer, times: Int) async throws {
        for _ in 0..<times {
            try await channel.writeAndFlush(bytes).get()
            recorder.state.withLock { $0.sent += bytes.readableBytes }
        }
    }

    /// Pauses or resumes reading.
    package func setReading(_ isReading: Bool) async throws {
        try await channel.setOption(.autoRead, value: isReading).get()
    }

    /// Reads once, for a peer that does not read by itself.
    package func read() { channel.read() }

    /// Closes the sending direction, and continues to read.
    package func endOutput() async throws { try await channel.close(mode: .output).get() }

    package func close() async throws { try await channel.close().get() }

    package func reset() async throws {
        let channel = self.channel
        try await channel.eventLoop.flatSubmit {
            (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                ?? channel.eventLoop.makeSucceededVoidFuture()
        }.get()
        try await channel.close().get()
    }

    /// Consumes the next message head, including the empty line.
    package func head() async throws -> String {
        try await take("a head") { unread, _ in
            let text = String(buffer: unread)
            guard let end = text.firstRange(of: "\r\n\r\n") else { return nil }
            return unread.readString(length: text[..<end.upperBound].utf8.count)
        }
    }

    /// Consumes the given number of bytes.
    package func text(_ count: Int) async throws -> String {
        try await take("\(count) bytes") { unread, _ in unread.readString(length: count) }
    }

    /// Consumes all bytes until the other side closes its sending direction.
    package func rest() async throws -> ByteBuffer {
        try await eventually("the end of input") { self.hasInputEnded }
        return recorder.state.withLock { state in
            defer { state.unread = ByteBuffer() }
            return state.unread
        }
    }

    /// Waits until the other side closes its sending direction.
    package func inputEnded() async throws {
        try await eventually("the end of input") { self.hasInputEnded }
    }

    /// Waits until the connection is closed in both directions.
    package func closed() async throws {
        try await eventually("the end of the connection") {
            if self.hasInputEnded, !self.isClosed { self.send("?") }
            return self.isClosed
        }
    }

    /// Consumes what `read` takes from the received bytes, once it returns a value.
    /// - Parameter read: Is called with the bytes and whether the connection is closed.
    package func take<R: Sendable>(
        _ what: String, _ read: (_ unread: inout ByteBuffer, _ isClosed: Bool) throws -> R?
    ) async throws -> R {
        try await eventually(what) {
            try recorder.state.withLock { try read(&$0.unread, $0.isClosed) }
        }
    }

    fileprivate final class RecordingHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let recorder: Recorder

        init(_ recorder: Recorder) { self.recorder = recorder }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var bytes = unwrapInboundIn(data)
            recorder.state.withLock { state in
                state.received += bytes.readableBytes
                state.unread.writeBuffer(&bytes)
            }
        }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed? = event as? ChannelEvent {
                recorder.state.withLock { $0.hasInputEnded = true }
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

extension RawPeer {
    /// Sends bytes on a new connection, and waits until it is closed.
    /// - Parameter hangsUp: Whether to close the connection after sending; otherwise the other side has to.
    /// - Returns: All bytes received.
    package static func exchange(_ bytes: [UInt8], port: Int, hangsUp: Bool = false) async throws -> String {
        let peer = try await connect(port: port, allowsHalfClosure: false)
        // The other side may have closed the connection already.
        try? await peer.stream(ByteBuffer(bytes: bytes), times: 1)
        if hangsUp { try? await peer.close() }
        try await peer.closed()
        return peer.unread
    }

    /// Whether no process listens on the port.
    package static func isRejected(port: Int) async -> Bool {
        guard let peer = try? await connect(port: port) else { return true }
        try? await peer.close()
        return false
    }
}

/// A server whose connections are controlled by the test.
package final class RawServer: Sendable {
    private let accepted = Mutex<[RawPeer]>([])

    /// The connections so far, in order.
    package var peers: [RawPeer] { accepted.withLock { $0 } }

    /// Waits for a connection.
    package func peer(_ index: Int = 0) async throws -> RawPeer {
        try await eventually("connection \(index) at the upstream") { self.peers.count > index }
        return peers[index]
    }

    /// Waits for a connection, and consumes the head of its first message.
    package func requested(_ index: Int = 0) async throws -> RawPeer {
        let peer = try await self.peer(index)
        _ = try await peer.head()
        return peer
    }

    /// Listens for as long as `body` takes.
    /// - Parameter place: The address to listen on; a free port of loopback by default.
    package static func run<R: Sendable>(
        at place: SocketAddress? = nil, _ body: (_ port: Int, RawServer) async throws -> R
    ) async throws -> R {
        let server = RawServer()
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let recorder = RawPeer.Recorder()
                    try channel.pipeline.syncOperations.addHandler(RawPeer.RecordingHandler(recorder))
                    server.accepted.withLock { $0.append(RawPeer(channel: channel, recorder: recorder)) }
                }
            }
            .bind(to: place ?? SocketAddress(ipAddress: "127.0.0.1", port: 0)).get()
        return try await stopping {
            try? await listener.close()
            for peer in server.peers { try? await peer.close() }
        } after: {
            try await body(listener.localAddress?.port ?? 0, server)
        }
    }
}
