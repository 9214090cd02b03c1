import CloakroomCore
public import NIOCore
public import NIOSSL

/// Verifies that a server's certificate is issued for the host name of the connection, before any application data is
/// sent.
///
/// If the connection has a host name, NIOSSL also accepts a certificate for the IP address that it is connected to. An
/// attacker that controls the name resolution can own such a certificate. RFC 9110 §4.3.4 requires a match of the name,
/// and only a `dNSName` of the subject alternative names counts (RFC 9525 §6.3), not the common name.
public struct ServerNameVerifier: Sendable {
    /// The certificate is not issued for any accepted name.
    public struct Mismatch: Error, CustomStringConvertible {
        /// Constant, because names in a certificate are supplied by the peer.
        public var description: String { "the certificate is not issued for the name of this host" }
    }

    private let host: String

    /// Creates a verifier for one host.
    /// - Parameter host: The name, without a trailing dot.
    /// - Returns: `nil` for an IP address, which NIOSSL compares with the addresses in the certificate.
    public init?(host: String) {
        guard IPAddress.bytes(of: host) == nil else { return nil }
        self.host = host
    }

    /// Creates the TLS handler of a connection. If the certificate is not issued for the host, the handler fails the
    /// handshake with ``Mismatch`` and closes the connection.
    /// - Parameters:
    ///   - context: A context of ``UpstreamTLS``.
    ///   - host: The name to send (SNI, RFC 6066 §3) and to verify; an IP address or `nil` verifies the address that
    ///     the connection is connected to.
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

    /// Verifies a connection whose handshake is complete. For clients that create their TLS handler themselves, before
    /// they send any data. Must be called on the connection's event loop.
    /// - Returns: `nil` if the certificate is issued for the host; otherwise a failed future, and the connection is
    ///   closed.
    public func rejection(of channel: any Channel) -> EventLoopFuture<Void>? {
        // Immediately and not in a later tick of the event loop: the client does not expect the connection to be closed
        // in between.
        if channel.eventLoop.inEventLoop,
            let tls = try? channel.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self),
            let certificate = tls.peerCertificate, accepts(certificate)
        {
            return nil
        }
        // Once the client has released the connection, nothing else closes it.
        channel.eventLoop.execute { channel.close(promise: nil) }
        return channel.eventLoop.makeFailedFuture(Mismatch())
    }

    private func accepts(_ certificate: NIOSSLCertificate) -> Bool {
        certificate._subjectAlternativeNames().contains {
            $0.nameType == .dnsName && CertificateName.matches(Array($0.contents), host: host)
        }
    }
}
