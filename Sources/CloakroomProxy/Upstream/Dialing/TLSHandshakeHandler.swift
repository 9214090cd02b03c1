import NIOCore
import NIOTLS

/// Waits until a connection to an upstream is encrypted and its other end is known, and then leaves.
final class TLSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private var done: EventLoopPromise<Void>?

    /// - Parameter done: Is completed in any case, with a ``TLSHandshakeError`` if there is no connection to use.
    init(_ done: EventLoopPromise<Void>) {
        self.done = done
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .handshakeCompleted? = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        complete(nil)
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        complete(error)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        complete(ChannelError.eof)
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        complete(ChannelError.eof)
    }

    private func complete(_ error: (any Error)?) {
        guard let done else { return }
        self.done = nil
        if let error {
            done.fail(TLSHandshakeError(cause: error))
        } else {
            done.succeed()
        }
    }
}

/// The other end of a connection could not prove who it is, or could not agree with us.
struct TLSHandshakeError: Error, CustomStringConvertible {
    let cause: any Error

    var description: String { "TLS: \(cause)" }
}
