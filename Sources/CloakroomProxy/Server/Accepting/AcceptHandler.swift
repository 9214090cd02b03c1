import CloakroomCore
import CloakroomTelemetry
import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Handler of a listening socket: counts accepted connections, and pauses accepting at the connection limit.
///
/// Folder `Accepting/`: decides which connections are accepted, how many, and with which channel handlers they begin.
final class AcceptHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel

    /// How long accepting is paused when the system lacks resources for a connection.
    static let backoff = TimeAmount.milliseconds(100)
    /// Errors of a system that lacks resources for a connection.
    static let resourceErrors = [EMFILE, ENFILE, ENOBUFS, ENOMEM]

    private let limit: ConnectionLimit
    private let logger: Logger
    private var channel: (any Channel)?
    private var isAccepting = true
    private var isBackingOff = false
    private var lines = FixedWindowLimiter(limit: 1)
    private var limitLines = FixedWindowLimiter(limit: 1)
    private let metrics: ListenerMetrics

    init(limit: ConnectionLimit, metrics: ListenerMetrics, logger: Logger) {
        self.limit = limit
        self.metrics = metrics
        self.logger = logger
    }

    func handlerAdded(context: ChannelHandlerContext) {
        channel = context.channel
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        limit.observe(self, context.channel) { bound.eventLoop.execute { bound.value.update() } }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        limit.stopObserving(self)
        if !isAccepting { metrics.acceptResumed() }
        isAccepting = true
        channel = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        limit.accepted(unwrapInboundIn(data))
        // Updated here and not only by the callback, so that no burst exceeds the limit meanwhile.
        update()
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let code = (error as? IOError)?.errnoCode, Self.resourceErrors.contains(code) else {
            return context.fireErrorCaught(error)
        }
        // The connection remains in the queue, so retrying at once would be a busy loop.
        guard !isBackingOff else { return }
        isBackingOff = true
        update()
        if lines.tryAcquire(at: NIODeadline.now().uptimeNanoseconds) != nil {
            logger.error(
                "accept paused: out of file descriptors or memory",
                metadata: [
                    "event": "accept_paused", "reason": "\(AcceptPauseReason.resources.rawValue)", "error": "\(error)",
                ])
        }
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.backoff) {
            self.isBackingOff = false
            self.update()
        }
    }

    /// Begins accepting on a socket that was bound without, unless it is paused.
    func begin() {
        guard isAccepting else { return }
        try? channel?.syncOptions?.setOption(.autoRead, value: true)
    }

    private func update() {
        let accepts = !isBackingOff && !limit.isFull
        guard accepts != isAccepting, channel != nil else { return }
        isAccepting = accepts
        if accepts {
            metrics.acceptResumed()
        } else {
            metrics.acceptPaused(isBackingOff ? .resources : .limit)
            if !isBackingOff { logLimit() }
        }
        try? channel?.syncOptions?.setOption(.autoRead, value: accepts)
    }

    /// Logs that the limit is reached, at most once per 10 s.
    private func logLimit() {
        guard let suppressed = limitLines.tryAcquire(at: NIODeadline.now().uptimeNanoseconds) else { return }
        logger.warning(
            "accept paused: connection limit reached",
            metadata: [
                "event": "accept_paused", "reason": "\(AcceptPauseReason.limit.rawValue)",
                "limit": .stringConvertible(limit.limit), "suppressed": .stringConvertible(suppressed),
            ])
    }
}
