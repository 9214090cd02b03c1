import CloakroomCore
public import NIOCore
public import NIOSSL

/// Checks that a server's certificate is issued for the host name of the connection, before any byte of ours is sent.
///
/// If the connection has a host name, NIOSSL also accepts a certificate for the IP address that it is connected to. An
/// attacker that controls the name resolution can own such a certificate. RFC 9110 §4.3.4 requires a match of the name,
/// and only a `dNSName` of the subject alternative names counts (RFC 9525 §6.3), not the common name.
public struct ServerNameVerifier: Sendable {
    /// The certificate is for none of the names that are accepted.
    public struct Mismatch: Error, CustomStringConvertible {
        /// Constant: names in a certificate are the other side's words.
        public var description: String { "the certificate is not issued for the name of this host" }
    }

    private let host: String

    /// Makes a verifier for one host.
    /// - Parameter host: The name, without a dot at the end.
    /// - Returns: `nil` for an IP address, which NIOSSL compares with the addresses in the certificate.
    public init?(host: String) {
        guard IPAddress.bytes(of: host) == nil else { return nil }
        self.host = host
    }

    /// Makes the TLS handler of a connection. It completes the handshake only if the certificate is for the host, and
    /// else fails with ``Mismatch`` and closes the connection.
    /// - Parameters:
    ///   - context: A context of ``UpstreamTLS``.
    ///   - host: The name to send (SNI, RFC 6066 §3) and to verify; an IP address or `nil` verifies the address that the
    ///     connection is connected to.
    /// - Throws: If the name cannot be sent.
    public static func makeHandler(context: NIOSSLContext, host: String?) throws -> NIOSSLClientHandler {
        guard let host, let verifier = ServerNameVerifier(host: host) else {
            return try NIOSSLClientHandler(context: context, serverHostname: nil)
        }
        return try NIOSSLClientHandler._makeSSLClientHandler(
            context: context, serverHostname: host
        ) { certificate, channel in
            verifier.accepts(certificate)
                ? channel.eventLoop.makeSucceededVoidFuture()
                : channel.eventLoop.makeFailedFuture(Mismatch())
        }
    }

    /// Verifies a connection whose handshake is complete. For clients that make their TLS handler themselves, before they
    /// send anything. To be called on the connection's event loop.
    /// - Returns: `nil` if the certificate is for the host; otherwise a failed future, and the connection is closed.
    public func rejection(of channel: any Channel) -> EventLoopFuture<Void>? {
        // At once and not in a later turn of the loop: the client does not expect a connection to end in between.
        if channel.eventLoop.inEventLoop,
            let tls = try? channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self),
            let certificate = tls.peerCertificate, accepts(certificate)
        {
            return nil
        }
        // Once the client has given it up, nothing else closes it.
        channel.eventLoop.execute { channel.close(promise: nil) }
        return channel.eventLoop.makeFailedFuture(Mismatch())
    }

    private func accepts(_ certificate: NIOSSLCertificate) -> Bool {
        certificate._subjectAlternativeNames().contains {
            $0.nameType == .dnsName && CertificateName.matches(Array($0.contents), host: host)
        }
    }
}
