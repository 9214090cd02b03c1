import CloakroomCore
package import NIOCore
import NIOSSL
import NIOTLS
import SwiftASN1
import X509

/// Waits until the TLS handshake with an upstream is complete and its certificate verified, and then removes itself.
package final class TLSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    package typealias InboundIn = ByteBuffer

    private var done: EventLoopPromise<String?>?
    private var negotiated: String?

    /// - Parameter done: Always completed, with the protocol that ALPN selected (RFC 7301); fails with a ``TLSHandshakeError`` if the connection is unusable.
    package init(_ done: EventLoopPromise<String?>) {
        self.done = done
    }

    package func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        self.negotiated = negotiated
        complete(nil)
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        complete(error, expiry: Self.expiry(context))
        context.close(promise: nil)
    }

    package func channelInactive(context: ChannelHandlerContext) {
        complete(ChannelError.eof)
        context.fireChannelInactive()
    }

    package func handlerRemoved(context: ChannelHandlerContext) {
        complete(ChannelError.eof)
    }

    /// When the certificate of the server expires; `nil` if it sent none. The certificate may be unverified, so it is parsed
    /// first: NIOSSL traps on an invalid time.
    private static func expiry(_ context: ChannelHandlerContext) -> WallTime? {
        let handler = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        guard let certificate = handler?.peerCertificate, let bytes = try? certificate.toDERBytes(),
            (try? Certificate(derEncoded: bytes)) != nil
        else { return nil }
        return WallTime(seconds: Int64(certificate.notValidAfter))
    }

    private func complete(_ error: (any Error)?, expiry: WallTime? = nil) {
        guard let done else { return }
        self.done = nil
        if let error {
            done.fail(TLSHandshakeError(cause: error, expiry: expiry))
        } else {
            done.succeed(negotiated)
        }
    }
}

/// The TLS handshake failed: the server's certificate was not accepted, or the server rejected the handshake.
package struct TLSHandshakeError: Error, CustomStringConvertible {
    package let cause: any Error
    /// When the certificate of the server expires; `nil` if none was received.
    var expiry: WallTime?

    package var description: String { "TLS: \(cause)" }
}
