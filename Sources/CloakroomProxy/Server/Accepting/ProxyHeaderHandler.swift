import CloakroomWire
import NIOCore

/// First in the pipeline where connections begin with a PROXY header: reads it, and makes way for what speaks with the
/// client. Without a header in time there is no going on (proxy-protocol.txt §2).
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler, LoopRegistered {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let channel: any Channel
    private let context: LoopContext
    private let setup: ChildChannelInitializer
    private var parser = ProxyHeaderParser()
    private var isOver = false
    private var hasStarted = false
    var registryIndex = -1
    private(set) var deadline = UInt64.max
    var isDownstream: Bool { true }

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
        deadline = context.updateTime() &+ context.snapshot.timeouts.header
        context.add(self)
        // It was accepted just before the gateway was told to stop.
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
        // The one that follows is known to the loop by now: a drain never sees this client as gone.
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

    // MARK: - What the loop tells

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
