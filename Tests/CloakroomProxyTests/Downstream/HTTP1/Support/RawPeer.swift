import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestSupport

@testable import CloakroomProxy

/// One end of a connection, controlled by the test: it sends and records bytes, and can close
/// each direction separately.
final class RawPeer: Sendable {
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
    /// - Parameter receiveBuffer: The size of the socket's receive buffer in bytes, for a peer that does not read.
    static func connect(port: Int, receiveBuffer: Int? = nil) async throws -> RawPeer {
        let recorder = Recorder()
        var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RecordingHandler(recorder))
                }
            }
        if let receiveBuffer {
            bootstrap = bootstrap.channelOption(.socketOption(.so_rcvbuf), value: .init(receiveBuffer))
        }
        let channel = try await bootstrap.connect(host: "127.0.0.1", port: port).get()
        return RawPeer(channel: channel, recorder: recorder)
    }

    /// The number of bytes received.
    var received: Int { recorder.state.withLock { $0.received } }
    /// The number of bytes that the system has accepted for sending.
    var sent: Int { recorder.state.withLock { $0.sent } }
    /// Received bytes that were not consumed.
    var unread: String { recorder.state.withLock { String(buffer: $0.unread) } }
    /// Whether the other side has closed its sending direction.
    var hasInputEnded: Bool { recorder.state.withLock { $0.hasInputEnded || $0.isClosed } }
    /// Whether the connection is closed in both directions.
    var isClosed: Bool { recorder.state.withLock { $0.isClosed } }
    /// Whether the other side reset the connection.
    var wasReset: Bool { recorder.state.withLock { $0.wasReset } }

    func send(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    func send(_ bytes: ByteBuffer) {
        channel.writeAndFlush(bytes, promise: nil)
    }

    /// Sends the same bytes repeatedly, as fast as the system accepts them.
    func stream(_ bytes: ByteBuffer, times: Int) async throws {
        for _ in 0..<times {
            try await channel.writeAndFlush(bytes).get()
            recorder.state.withLock { $0.sent += bytes.readableBytes }
        }
    }

    /// Pauses or resumes reading.
    func setReading(_ isReading: Bool) async throws {
        try await channel.setOption(.autoRead, value: isReading).get()
    }

    /// Closes the sending direction, and continues to read.
    func endOutput() async throws {
        try await channel.close(mode: .output).get()
    }

    func close() async throws {
        try await channel.close().get()
    }

    /// Resets the connection.
    func reset() async throws {
        let channel = self.channel
        try await channel.eventLoop.submit { TCPReset.onClose(channel) }.get()
        try await channel.close().get()
    }

    /// Consumes the next message head, including the empty line.
    func head() async throws -> String {
        try await take("a head") { unread in
            guard let end = String(buffer: unread).firstRange(of: "\r\n\r\n") else { return nil }
            return String(buffer: unread)[..<end.upperBound].utf8.count
        }
    }

    /// Consumes the given number of bytes.
    func text(_ count: Int) async throws -> String {
        try await take("\(count) bytes") { $0.readableBytes >= count ? count : nil }
    }

    /// Consumes all bytes until the other side closes its sending direction.
    func rest() async throws -> ByteBuffer {
        try await eventually("the end of input") { self.hasInputEnded }
        return recorder.state.withLock { state in
            defer { state.unread = ByteBuffer() }
            return state.unread
        }
    }

    /// Waits until the other side closes its sending direction.
    func inputEnded() async throws {
        try await eventually("the end of input") { self.hasInputEnded }
    }

    /// Waits until the connection is closed in both directions.
    func closed() async throws {
        try await eventually("the end of the connection") {
            if self.hasInputEnded, !self.isClosed { self.send("?") }
            return self.isClosed
        }
    }

    /// Consumes the number of bytes that `count` returns, once it is not `nil`.
    private func take(_ what: String, _ count: @Sendable (ByteBuffer) -> Int?) async throws -> String {
        let taken = Mutex<String?>(nil)
        try await eventually(what) {
            let text: String? = self.recorder.state.withLock { state in
                guard let count = count(state.unread) else { return nil }
                return state.unread.readString(length: count)
            }
            if let text { taken.withLock { $0 = text } }
            return text != nil
        }
        return taken.withLock { $0 } ?? ""
    }

    fileprivate final class RecordingHandler: ChannelInboundHandler {
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

/// A server whose connections are controlled by the test.
final class RawServer: Sendable {
    private let accepted = Mutex<[RawPeer]>([])

    /// The connections so far, in order.
    var peers: [RawPeer] { accepted.withLock { $0 } }

    /// Waits for a connection.
    func peer(_ index: Int = 0) async throws -> RawPeer {
        try await eventually("connection \(index) at the upstream") { self.peers.count > index }
        return peers[index]
    }

    /// Listens on a free port of loopback for as long as `body` takes.
    static func run<R: Sendable>(_ body: (_ port: Int, RawServer) async throws -> R) async throws -> R {
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
            .bind(host: "127.0.0.1", port: 0).get()
        let result: Result<R, any Error>
        do {
            result = .success(try await body(listener.localAddress?.port ?? 0, server))
        } catch {
            result = .failure(error)
        }
        try? await listener.close()
        for peer in server.peers { try? await peer.close() }
        return try result.get()
    }
}
