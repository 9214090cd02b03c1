import CloakroomCore
import Hummingbird
import HummingbirdCore
import Logging
public import NIOCore
import NIOHTTP1

/// TLS of the admin listener, provided by the part that owns the certificates.
public struct AdminTLS: Sendable {
    let makeHandler: @Sendable () throws -> any ChannelHandler
    let hasClientCertificate: @Sendable (any Channel) async -> Bool
    let watch: @Sendable () async -> Void

    /// - Parameters:
    ///   - makeHandler: Creates the handler of one connection.
    ///   - hasClientCertificate: Whether the client of a connection presented a certificate that was verified.
    ///   - watch: Reloads changed files until it is cancelled.
    public init(
        makeHandler: @escaping @Sendable () throws -> any ChannelHandler,
        hasClientCertificate: @escaping @Sendable (any Channel) async -> Bool,
        watch: @escaping @Sendable () async -> Void
    ) {
        self.makeHandler = makeHandler
        self.hasClientCertificate = hasClientCertificate
        self.watch = watch
    }
}

/// A connection to the admin listener: TLS, limits and HTTP/1.1.
struct AdminChannel: ServerChildChannel {
    let base: HTTP1Channel
    let tls: AdminTLS?
    let connections: AdminConnectionLimit
    /// Called with the reason and the address of a client that is rejected before its request is served, or whose
    /// connection replaces another one.
    let onRejection: @Sendable (_ reason: RejectionLog.Reason, _ peer: String) -> Void

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        let peer = channel.remoteAddress?.ipAddress ?? ""
        return channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            try pipeline.addHandler(
                AdminConnectionHandler(connections, peer: peer) { onRejection(.connections, peer) })
            if let tls { try pipeline.addHandler(tls.makeHandler()) }
            try pipeline.addHandler(AdminRequestLimits())
        }.flatMap {
            base.setup(channel: channel, logger: logger)
        }.flatMapThrowing { [onRejection] value in
            // The handlers that follow the decoder convert the head, and lose what is checked.
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            let heads = AdminRequestHeads { onRejection(.host, peer) }
            try pipeline.addHandler(heads, position: .after(decoder))
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async {
        await base.handle(value: value, logger: logger)
    }
}

/// Rejects a request whose host is ambiguous, with 400: several `Host` fields (RFC 9112 §3.2), or a request target that is
/// not a path and can thereby name another host than `Host` does (§3.2.2).
final class AdminRequestHeads: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    /// Notifies the handlers that precede the decoder, as an outbound event: the head of a request is complete.
    struct HeadReceived {}

    private let onRejection: () -> Void
    private var isRejected = false

    init(onRejection: @escaping () -> Void) {
        self.onRejection = onRejection
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRejected else { return }
        if case .head(let head) = Self.unwrapInboundIn(data) {
            context.triggerUserOutboundEvent(HeadReceived(), promise: nil)
            if let error = Self.error(of: head) {
                isRejected = true
                onRejection()
                // Becomes a response with 400, after which the connection ends.
                return context.fireErrorCaught(error)
            }
        }
        context.fireChannelRead(data)
    }

    private static func error(of head: HTTPRequestHead) -> HTTPParserError? {
        guard head.uri.utf8.first == UInt8(ascii: "/") else { return .invalidURL }
        return head.headers["host"].count > 1 ? .invalidHeaderToken : nil
    }
}

/// Closes a connection whose client is too slow or sends too much: the head of a request is complete within 5 s of its
/// first byte, that of the first request within 5 s of the start of the connection; the response begins within 30 s of
/// the head, and the client takes what is written within 30 s. A request has at most 32 KiB.
final class AdminRequestLimits: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    static let timeout = TimeAmount.seconds(30)
    static let headTimeout = TimeAmount.seconds(5)
    /// The maximum size of a request in bytes. The body of the only request that has one is at most 1 KiB.
    static let requestSize = 32 << 10

    private var request: Scheduled<Void>?
    private var writing: Scheduled<Void>?
    private var writes = 0
    private var received = 0

    func handlerAdded(context: ChannelHandlerContext) {
        request = closing(context, in: Self.headTimeout)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        request?.cancel()
        writing?.cancel()
    }

    func channelInactive(context: ChannelHandlerContext) {
        request?.cancel()
        writing?.cancel()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += Self.unwrapInboundIn(data).readableBytes
        guard received <= Self.requestSize else { return context.close(promise: nil) }
        if request == nil { request = closing(context, in: Self.headTimeout) }
        context.fireChannelRead(data)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if event is AdminRequestHeads.HeadReceived {
            request?.cancel()
            request = closing(context, in: Self.timeout)
        }
        context.triggerUserOutboundEvent(event, promise: promise)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        request?.cancel()
        request = nil
        received = 0
        writes += 1
        if writing == nil { writing = closing(context, in: Self.timeout) }
        let written = promise ?? context.eventLoop.makePromise()
        written.futureResult.assumeIsolated().whenComplete { [self] _ in
            writes -= 1
            guard writes == 0 else { return }
            writing?.cancel()
            writing = nil
        }
        context.write(data, promise: written)
    }

    private func closing(_ context: ChannelHandlerContext, in timeout: TimeAmount) -> Scheduled<Void> {
        context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { context.close(promise: nil) }
    }
}
