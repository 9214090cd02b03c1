import CloakroomCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization
import TestSupport

/// An HTTP/2 server that reacts to each frame by a script, and can break any rule. It acknowledges SETTINGS and PING and
/// returns windows, unless its options differ.
final class FrameServer: Sendable {
    enum Event: Sendable {
        /// The connection was accepted.
        case opened
        case headers(UInt32, HPACKHeaders, ends: Bool)
        case data(UInt32, Int, ends: Bool)
        case reset(UInt32, UInt32)
        case settings([UInt16: UInt32])
        case ping(isAck: Bool)
        case goAway(UInt32)
        case windowUpdate(UInt32, Int)
        case closed
    }

    struct Options: Sendable {
        /// Settings sent first.
        var settings: [HTTP2WireSetting] = []
        var sendsSettings = true
        var returnsWindows = true
        var acknowledgesPings = true
    }

    struct Request: Sendable {
        var connection: Int
        var stream: UInt32
        var head: HPACKHeaders
        var body: [UInt8] = []
        var trailers: HPACKHeaders?
        var isComplete = false
        var reset: UInt32?

        var path: String { head.first(name: ":path") ?? "" }
    }

    /// What a script can do on a connection. It happens after the script has returned: a write that fails closes the
    /// channel at once, which calls the script, and a script may hold a lock.
    struct Link: Sendable {
        let channel: any Channel
        /// The number of the connection, from 0.
        let index: Int

        func send(_ frames: HTTP2WireFrame...) { send(frames) }
        func send(_ frames: [HTTP2WireFrame]) { send(bytes: frames.flatMap(\.bytes)) }
        func send(bytes: [UInt8]) {
            channel.eventLoop.execute { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }
        }
        func close() { channel.eventLoop.execute { channel.close(promise: nil) } }

        /// Sends a complete response.
        func respond(
            _ stream: UInt32, _ status: String = "200", _ fields: [(String, String)] = [], _ body: String = "ok"
        ) {
            let head = HTTP2Fields([(":status", status)] + fields)
            send(.headers(stream, head, ends: body.isEmpty))
            if !body.isEmpty { send(.data(stream, body, ends: true)) }
        }
    }

    typealias Script = @Sendable (Link, Event) -> Void

    private struct State {
        var connections = 0
        var closed = 0
        var requests: [Request] = []
        var events: [Event] = []
    }

    private let state = Mutex(State())
    let options: Options
    private let script: Script

    private init(_ options: Options, _ script: @escaping Script) {
        self.options = options
        self.script = script
    }

    var connectionCount: Int { state.withLock { $0.connections } }
    var closedCount: Int { state.withLock { $0.closed } }
    var requests: [Request] { state.withLock { $0.requests } }
    var resets: [UInt32] { requests.compactMap(\.reset) }
    var events: [Event] { state.withLock { $0.events } }

    fileprivate func accept() -> Int {
        state.withLock {
            $0.connections += 1
            return $0.connections - 1
        }
    }

    fileprivate func receive(_ event: Event, body: [UInt8] = [], on link: Link) {
        state.withLock { state in
            if state.events.count < 20_000 { state.events.append(event) }
            switch event {
            case .headers(let id, let head, let ends):
                if let index = Self.index(of: id, link, state) {
                    state.requests[index].trailers = head
                    state.requests[index].isComplete = ends
                } else {
                    state.requests.append(Request(connection: link.index, stream: id, head: head, isComplete: ends))
                }
            case .data(let id, _, let ends):
                guard let index = Self.index(of: id, link, state) else { break }
                state.requests[index].body += body
                state.requests[index].isComplete = ends
            case .reset(let id, let code):
                if let index = Self.index(of: id, link, state) { state.requests[index].reset = code }
            case .closed: state.closed += 1
            default: break
            }
        }
        script(link, event)
    }

    private static func index(of id: UInt32, _ link: Link, _ state: State) -> Int? {
        state.requests.lastIndex { $0.stream == id && $0.connection == link.index }
    }

    /// Listens on a free port of loopback for as long as `body` takes.
    static func run<R: Sendable>(
        _ options: Options = Options(), tls: NIOSSLContext? = nil, script: @escaping Script,
        body: (_ port: Int, _ server: FrameServer) async throws -> R
    ) async throws -> R {
        let server = FrameServer(options, script)
        let channels = Mutex<[any Channel]>([])
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channels.withLock { $0.append(channel) }
                return channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                    try channel.pipeline.syncOperations.addHandler(FrameHandler(server, channel))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return try await stopping {
            try? await listener.close()
            for channel in channels.withLock({ $0 }) { try? await channel.close() }
        } after: {
            try await body(listener.localAddress?.port ?? 0, server)
        }
    }
}

private final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let server: FrameServer
    private let link: FrameServer.Link
    private var unread = ByteBuffer()
    private var isPrefaceRead = false
    private var decoder = HPACKDecoder(
        allocator: ByteBufferAllocator(), maxDynamicTableSize: 4_096, maxHeaderListSize: 1 << 20)

    init(_ server: FrameServer, _ channel: any Channel) {
        self.server = server
        link = FrameServer.Link(channel: channel, index: server.accept())
    }

    func channelActive(context: ChannelHandlerContext) {
        if server.options.sendsSettings { link.send(.settings(server.options.settings)) }
        server.receive(.opened, on: link)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        unread.writeBuffer(&bytes)
        if !isPrefaceRead {
            guard unread.readableBytes >= 24 else { return }
            unread.moveReaderIndex(forwardBy: 24)
            isPrefaceRead = true
        }
        while let (type, flags, stream, payload) = HTTP2WireFrame.next(in: &unread) {
            receive(type, flags, stream, payload)
        }
        unread.discardReadBytes()
    }

    func channelInactive(context: ChannelHandlerContext) { server.receive(.closed, on: link) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func receive(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: ByteBuffer) {
        var payload = payload
        let ends = flags & 1 != 0
        switch type {
        case 0:
            if server.options.returnsWindows, payload.readableBytes > 0 {
                link.send(.windowUpdate(0, payload.readableBytes))
                if !ends { link.send(.windowUpdate(stream, payload.readableBytes)) }
            }
            let body = Array(payload.readableBytesView)
            server.receive(.data(stream, body.count, ends: ends), body: body, on: link)
        case 1:
            guard let head = try? decoder.decodeHeaders(from: &payload) else { return link.close() }
            server.receive(.headers(stream, head, ends: ends), on: link)
        case 3: server.receive(.reset(stream, payload.readInteger() ?? 0), on: link)
        case 4:
            guard !ends else { return }
            var settings: [UInt16: UInt32] = [:]
            while let id: UInt16 = payload.readInteger(), let value: UInt32 = payload.readInteger() {
                settings[id] = value
            }
            if server.options.sendsSettings { link.send(.settingsAck) }
            server.receive(.settings(settings), on: link)
        case 6:
            let data = Array(payload.readableBytesView)
            if !ends, server.options.acknowledgesPings {
                link.send(HTTP2WireFrame(type: 6, flags: 1, payload: data))
            }
            server.receive(.ping(isAck: ends), on: link)
        case 7: server.receive(.goAway(payload.readInteger() ?? 0), on: link)
        case 8: server.receive(.windowUpdate(stream, Int(payload.readInteger(as: UInt32.self) ?? 0)), on: link)
        default: break
        }
    }
}

extension GatewaySetup {
    /// Uses an HTTP/2 server as the upstream.
    func http2Upstream(
        _ port: Int, _ version: UpstreamProtocol = .h2c,
        _ adjust: @escaping @Sendable (inout UpstreamConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        with(\.upstreamPort, port).configuration {
            $0.upstreams[0].protocolVersion = version
            adjust(&$0.upstreams[0])
        }
    }

    /// Runs the gateway with such a server as the upstream.
    func run(
        _ options: FrameServer.Options = .init(), against script: @escaping FrameServer.Script,
        body: (RunningGateway, FrameServer) async throws -> Void
    ) async throws {
        try await FrameServer.run(options, script: script) { port, server in
            try await http2Upstream(port).run { gateway in try await body(gateway, server) }
        }
    }
}
