import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A server that follows a script on each connection and records every byte received.
final class ScriptedUpstream: Sendable {
    enum Step: Sendable {
        /// Waits for a request head, and consumes it.
        case head
        /// Waits for a complete request, and consumes it.
        case request
        /// Waits for a number of body bytes of the last request, and consumes them.
        case body(Int)
        /// Sends these bytes.
        case send(String)
        /// Sends the bytes that are made of the port of the upstream.
        case reply(@Sendable (_ port: Int) -> String)
        /// Sends the same bytes repeatedly, as fast as the system accepts them.
        case stream(ByteBuffer, times: Int)
        case wait(Gate)
        case delay(TimeAmount)
        /// Pauses or resumes reading.
        case reading(Bool)
        case close
        /// Closes the TCP connection without close_notify.
        case cut
        /// Restarts at the first step.
        case again
    }

    struct Request: Sendable {
        var head: String
        /// The body including its framing.
        var body = ByteBuffer()

        /// The values of a field, in order.
        func values(_ name: String) -> [String] {
            head.split(separator: "\r\n").dropFirst().compactMap { line in
                let prefix = name.lowercased() + ":"
                guard line.lowercased().hasPrefix(prefix) else { return nil }
                return String(line.dropFirst(prefix.count).drop { $0 == " " })
            }
        }

        /// The value of a field that appears once.
        subscript(name: String) -> String? {
            let values = values(name)
            return values.count == 1 ? values[0] : nil
        }

        var line: String { String(head.prefix { $0 != "\r\n" }) }
        var text: String { String(buffer: body) }
    }

    struct Connection: Sendable {
        var requests: [Request] = []
        /// The number of bytes received.
        var received = 0
        /// The number of bytes that the system has accepted for sending.
        var sent = 0
        var isClosed = false
    }

    private struct State {
        var scripts: [[Step]]
        var connections: [Connection] = []
        var channels: [any Channel] = []
        var listener: (any Channel)?
    }

    private let state: Mutex<State>

    private init(_ scripts: [[Step]]) { state = Mutex(State(scripts: scripts)) }

    /// The connections so far, in order.
    var connections: [Connection] { state.withLock { $0.connections } }
    var requests: [Request] { connections.flatMap(\.requests) }
    /// The number of bytes received on all connections.
    var received: Int { connections.reduce(0) { $0 + $1.received } }

    /// The request at an index over all connections, once it has arrived.
    func request(_ index: Int = 0) async throws -> Request {
        try await eventually("request \(index) at the upstream") { self.requests.count > index }
        return requests[index]
    }

    /// Waits until the gateway has closed the first connection.
    func closed() async throws {
        try await eventually("the end of the upstream connection") { self.connections.first?.isClosed ?? false }
    }

    /// Accepts no more connections: further ones are refused.
    func stopListening() async throws { try await state.withLock { $0.listener }?.close() }

    fileprivate func begin(_ channel: any Channel) -> (Int, [Step]) {
        state.withLock { state in
            let index = state.connections.count
            state.connections.append(Connection())
            state.channels.append(channel)
            return (index, state.scripts.isEmpty ? [] : state.scripts[min(index, state.scripts.count - 1)])
        }
    }

    fileprivate func note(_ index: Int, _ change: (inout Connection) -> Void) {
        state.withLock { change(&$0.connections[index]) }
    }

    /// Listens on a free port of loopback for as long as `body` takes. The n-th connection follows the n-th script, all
    /// further ones the last.
    /// - Parameters:
    ///   - place: The address to listen on, if not a free port of loopback.
    ///   - tls: The TLS context, if any.
    static func run<R: Sendable>(
        _ scripts: [[Step]], at place: SocketAddress? = nil, tls: NIOSSLContext? = nil,
        body: (_ port: Int, _ upstream: ScriptedUpstream) async throws -> R
    ) async throws -> R {
        let upstream = ScriptedUpstream(scripts)
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    // A Unix domain socket does not support this option.
                    try? channel.syncOptions?.setOption(.tcpOption(.tcp_nodelay), value: 1)
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.addHandler(ScriptHandler(upstream, channel))
                }
            }
            .bind(to: place ?? SocketAddress(ipAddress: "127.0.0.1", port: 0)).get()
        upstream.state.withLock { $0.listener = server }
        return try await stopping {
            try? await server.close()
            for channel in upstream.state.withLock({ $0.channels }) { try? await channel.close() }
        } after: {
            try await body(server.localAddress?.port ?? 0, upstream)
        }
    }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let upstream: ScriptedUpstream
    private let channel: any Channel
    private let index: Int
    private let script: [ScriptedUpstream.Step]
    private var next = 0
    private var unread = ByteBuffer()
    private var isBusy = false

    init(_ upstream: ScriptedUpstream, _ channel: any Channel) {
        self.upstream = upstream
        self.channel = channel
        (index, script) = upstream.begin(channel)
    }

    func channelActive(context: ChannelHandlerContext) { advance() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        let count = bytes.readableBytes
        upstream.note(index) { $0.received += count }
        unread.writeBuffer(&bytes)
        advance()
    }

    func channelInactive(context: ChannelHandlerContext) {
        upstream.note(index) { $0.isClosed = true }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func advance() {
        while !isBusy, next < script.count {
            switch script[next] {
            case .head:
                guard let head = takeHead() else { return }
                upstream.note(index) { $0.requests.append(.init(head: head)) }
            case .request:
                guard let request = takeRequest() else { return }
                upstream.note(index) { $0.requests.append(request) }
            case .body(let count):
                guard let body = unread.readSlice(length: count) else { return }
                upstream.note(index) { $0.requests[$0.requests.count - 1].body = body }
            case .send(let text): channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
            case .reply(let make):
                let text = make(channel.localAddress?.port ?? 0)
                channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
            case .stream(let bytes, let times): stream(bytes, times: times)
            case .wait(let gate): pause(until: gate)
            case .delay(let time):
                isBusy = true
                channel.eventLoop.assumeIsolated().scheduleTask(in: time) { self.resume() }
            case .reading(let isReading): try? channel.syncOptions?.setOption(.autoRead, value: isReading)
            case .close: channel.close(promise: nil)
            case .cut: cut()
            case .again:
                next = 0
                continue
            }
            next += 1
        }
    }

    private func cut() {
        guard let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) else {
            return channel.close(promise: nil)
        }
        tls.close(promise: nil)
    }

    private func pause(until gate: Gate) {
        isBusy = true
        let bound = NIOLoopBound(self, eventLoop: channel.eventLoop)
        let eventLoop = channel.eventLoop
        gate.whenOpen { eventLoop.execute { bound.value.resume() } }
    }

    private func stream(_ bytes: ByteBuffer, times: Int) {
        isBusy = true
        guard times > 0 else { return resume() }
        channel.writeAndFlush(bytes).assumeIsolated().whenComplete { result in
            guard case .success = result else { return }
            self.upstream.note(self.index) { $0.sent += bytes.readableBytes }
            // In a separate event loop tick: immediate completions would recurse until the stack overflows.
            self.channel.eventLoop.assumeIsolated().execute { self.stream(bytes, times: times - 1) }
        }
    }

    private func resume() {
        isBusy = false
        advance()
    }

    private func takeHead() -> String? {
        guard let (head, length) = peekHead() else { return nil }
        unread.moveReaderIndex(forwardBy: length)
        return head
    }

    private func takeRequest() -> ScriptedUpstream.Request? {
        guard let (head, length) = peekHead() else { return nil }
        var request = ScriptedUpstream.Request(head: head)
        var bodyLength = request["Content-Length"].flatMap { Int($0) } ?? 0
        if request["Transfer-Encoding"] == "chunked" {
            guard let chunked = chunkedLength(from: unread.readerIndex + length) else { return nil }
            bodyLength = chunked
        }
        guard unread.readableBytes >= length + bodyLength else { return nil }
        unread.moveReaderIndex(forwardBy: length)
        request.body = unread.readSlice(length: bodyLength) ?? ByteBuffer()
        return request
    }

    private func peekHead() -> (String, Int)? {
        // Received bytes are not necessarily text.
        let start = unread.readableBytesView.prefix(65_536)
        guard let end = start.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        return (String(decoding: start[..<end.lowerBound], as: UTF8.self), end.upperBound - start.startIndex)
    }

    /// The number of bytes of a chunked body including its framing.
    private func chunkedLength(from start: Int) -> Int? {
        var index = start
        while true {
            let line = unread.getString(at: index, length: min(20, unread.writerIndex - index)) ?? ""
            guard let end = line.firstRange(of: "\r\n"), let size = Int(line[..<end.lowerBound], radix: 16) else {
                return nil
            }
            index += line[..<end.upperBound].utf8.count
            if size == 0 {
                // The end of this line, trailers if any, and an empty line.
                let rest = unread.viewBytes(at: index - 2, length: unread.writerIndex - index + 2)
                return rest?.firstRange(of: Array("\r\n\r\n".utf8)).map { $0.upperBound - start }
            }
            index += size + 2
            guard index <= unread.writerIndex else { return nil }
        }
    }
}
