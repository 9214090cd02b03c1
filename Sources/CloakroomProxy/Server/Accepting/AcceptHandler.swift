import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// In the pipeline of a listening socket: counts what is accepted, and stops accepting while there is no room for more.
final class AcceptHandler: ChannelInboundHandler {
    typealias InboundIn = any Channel
    typealias InboundOut = any Channel

    /// How long accepting stops once the system has nothing left to make a connection of.
    static let backoff = TimeAmount.milliseconds(100)
    /// How often such a shortage is told at most.
    private static let logInterval = TimeAmount.seconds(10)

    private let limit: ConnectionLimit
    private let logger: Logger
    private var channel: (any Channel)?
    private var isAccepting = true
    private var isBackingOff = false
    private var lastLogged: NIODeadline?

    init(limit: ConnectionLimit, logger: Logger) {
        self.limit = limit
        self.logger = logger
    }

    func handlerAdded(context: ChannelHandlerContext) {
        channel = context.channel
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        limit.observe(self) { bound.eventLoop.execute { bound.value.update() } }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        limit.stopObserving(self)
        channel = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        limit.accepted(unwrapInboundIn(data))
        // Here and not only when told: so that no burst goes on until then.
        update()
        context.fireChannelRead(data)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let code = (error as? IOError)?.errnoCode, [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(code) else {
            return context.fireErrorCaught(error)
        }
        // The connection stays in the queue, so that trying again at once would go round and round.
        guard !isBackingOff else { return }
        isBackingOff = true
        update()
        let now = NIODeadline.now()
        if lastLogged.map({ now - $0 >= Self.logInterval }) ?? true {
            lastLogged = now
            logger.error(
                "no connection can be accepted at the moment: the system has no room for another",
                metadata: ["error": "\(error)"])
        }
        context.eventLoop.assumeIsolated().scheduleTask(in: Self.backoff) {
            self.isBackingOff = false
            self.update()
        }
    }

    private func update() {
        let accepts = !isBackingOff && !limit.isFull
        guard accepts != isAccepting else { return }
        isAccepting = accepts
        try? channel?.syncOptions?.setOption(.autoRead, value: accepts)
    }
}
