import AsyncHTTPClient
import CloakroomCore
import NIOCore
import NIOSSL

/// Makes sure that a certificate is for the name that was asked for.
///
/// NIOSSL also takes one for the IP address that it is connected to. Whoever can lie about the name's address has one of
/// those (RFC 9110 §4.3.4 wants the name, and no common name either).
struct CertificateNameCheck: Sendable {
    /// The certificate is for none of the names that it would have to be for.
    struct Failed: Error {}

    private let host: String

    /// - Returns: `nil` for an IP address, which NIOSSL verifies as such.
    init?(host: String) {
        guard IPAddress.bytes(of: host) == nil else { return nil }
        self.host = host
    }

    /// Has every connection checked before it carries a call.
    func install(in configuration: inout HTTPClient.Configuration) {
        configuration.http1_1ConnectionDebugInitializer = { channel in
            // At once and not in a later turn of the loop: the client does not expect a connection to end in between.
            if channel.eventLoop.inEventLoop, passes(channel) { return channel.eventLoop.makeSucceededVoidFuture() }
            // Once the client has given it up, nobody else closes it.
            channel.eventLoop.execute { channel.close(promise: nil) }
            return channel.eventLoop.makeFailedFuture(Failed())
        }
    }

    private func passes(_ channel: any Channel) -> Bool {
        let tls = try? channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        guard let names = tls?.peerCertificate?._subjectAlternativeNames() else { return false }
        return names.contains { $0.nameType == .dnsName && CertificateName.matches(Array($0.contents), host: host) }
    }
}
