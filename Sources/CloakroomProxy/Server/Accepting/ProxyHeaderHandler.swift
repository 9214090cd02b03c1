import CloakroomWire
import NIOCore

/// First handler of connections that must begin with a PROXY header: parses it and adds the handlers for the client. A
/// connection without a header in time is closed (proxy-protocol.txt §2).
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let channel: any Channel
    private let context: LoopContext
    private let setup: ChildChannelInitializer
    private var parser = ProxyHeaderParser()
    private var isOver = false
    private var hasStarted = false
    private var start = UInt64.max
    var registryIndex = -1
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { true }
    /// The client's address is not known yet.
    var idle: (since: UInt64, load: ClientLoad?)? { (start, nil) }

    init(channel: any Channel, context: LoopContext, setup: ChildChannelInitializer) {
        self.channel = channel
        self.context = context
        self.setup = setup
    }

    func handlerAdded(context handlerContext: ChannelHandlerContext) {
        if handlerContext.channel.isActive { begin() }
    }

    func channelActive(context handlerContext: ChannelHandlerContext) {
        begin()
        handlerContext.fireChannelActive()
    }

    private func begin() {
        guard !hasStarted, !isOver else { return }
        hasStarted = true
        start = context.updateTime()
        deadline = start &+ context.snapshot.timeouts.header
        context.add(self)
        // It was accepted just before draining began.
        if context.isDraining { closeNow() }
    }

    func channelRead(context handlerContext: ChannelHandlerContext, data: NIOAny) {
        guard !isOver else { return }
        context.updateTime()
        var bytes = unwrapInboundIn(data)
        do {
            guard let header = try parser.parse(&bytes) else { return }
            try setup.configurePipeline(channel, context: context, sourceAddress: header.source?.ipAddress)
        } catch is ProxyHeaderError {
            _ = setup.reject(.proxyHeader)
            return closeNow()
        } catch {
            return closeNow()
        }
        // The next handler is registered with the loop already, so a drain counts this connection at any time.
        end()
        if bytes.readableBytes > 0 { handlerContext.fireChannelRead(wrapInboundOut(bytes)) }
        handlerContext.pipeline.syncOperations.removeHandler(context: handlerContext, promise: nil)
    }

    func errorCaught(context handlerContext: ChannelHandlerContext, error: any Error) {
        guard !isOver else { return handlerContext.fireErrorCaught(error) }
        closeNow()
    }

    func channelInactive(context handlerContext: ChannelHandlerContext) {
        end()
        handlerContext.fireChannelInactive()
    }

    private func end() {
        isOver = true
        context.remove(self)
    }

    // MARK: - Called by the event loop

    func deadlineExpired(now: UInt64) {
        _ = setup.reject(.proxyHeader)
        closeNow()
    }

    func drain() { closeNow() }

    func closeNow() {
        guard !isOver else { return }
        end()
        channel.close(promise: nil)
    }
}
