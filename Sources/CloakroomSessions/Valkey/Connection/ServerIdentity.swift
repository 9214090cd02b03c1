import CloakroomCore
import NIOCore
import NIOSSL

/// Makes the TLS part of a connection.
enum ServerIdentity {
    /// - Parameter name: The host name that the certificate has to be for. An IP address is compared with the addresses in
    ///   the certificate instead.
    static func handler(_ context: NIOSSLContext, name: String) throws -> NIOSSLClientHandler {
        guard (try? SocketAddress(ipAddress: name, port: 0)) == nil else {
            return try NIOSSLClientHandler(context: context, serverHostname: nil)
        }
        // Where a name was asked for, NIOSSL also takes a certificate for the IP address that it is connected to. Whoever
        // can lie about the name's address has one of those (RFC 9110 §4.3.4). This is asked before anything is sent, and
        // the password is the first thing that is.
        return try NIOSSLClientHandler._makeSSLClientHandler(
            context: context, serverHostname: name
        ) { certificate, channel in
            let isNamed = certificate._subjectAlternativeNames().contains {
                $0.nameType == .dnsName && CertificateName.matches(Array($0.contents), host: name)
            }
            return isNamed
                ? channel.eventLoop.makeSucceededVoidFuture()
                : channel.eventLoop.makeFailedFuture(NIOSSLExtraError.failedToValidateHostname)
        }
    }
}
