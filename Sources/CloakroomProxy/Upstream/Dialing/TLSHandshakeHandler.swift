import CloakroomCore
import NIOCore
import NIOSSL
import NIOTLS

/// Waits until a connection to an upstream is encrypted and its other end is known, and then leaves.
final class TLSHandshakeHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private var done: EventLoopPromise<Void>?
    private let serverName: String?

    /// - Parameters:
    ///   - serverName: The host name that the certificate must be for; `nil` leaves it at what NIOSSL verified.
    ///   - done: Is completed in any case, with a ``TLSHandshakeError`` if there is no connection to use.
    init(serverName: String?, _ done: EventLoopPromise<Void>) {
        self.serverName = serverName
        self.done = done
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .handshakeCompleted? = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        guard isForServerName(context) else {
            complete(CertificateNameError())
            return context.close(promise: nil)
        }
        complete(nil)
        context.pipeline.syncOperations.removeHandler(self, promise: nil)
    }

    /// Where a name was asked for, NIOSSL also takes a certificate for the IP address that it is connected to. Whoever
    /// can lie about the name's address has one of those (RFC 9110 §4.3.4 wants the name, and no common name either).
    private func isForServerName(_ context: ChannelHandlerContext) -> Bool {
        guard let serverName else { return true }
        let tls = try? context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        guard let names = tls?.peerCertificate?._subjectAlternativeNames() else { return false }
        return names.contains {
            $0.nameType == .dnsName && CertificateName.matches(Array($0.contents), host: serverName)
        }
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

/// The certificate is for none of the names that it would have to be for.
struct CertificateNameError: Error {}

/// The other end of a connection could not prove who it is, or could not agree with us.
struct TLSHandshakeError: Error, CustomStringConvertible {
    let cause: any Error

    var description: String { "TLS: \(cause)" }
}
