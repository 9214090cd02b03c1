public import CloakroomCore
import NIOCore
public import NIOSSL

/// The TLS configuration of every connection that the gateway opens: to upstreams, for requests and for sign-ins, to
/// the session store, and to the trace collector.
///
/// Certificates are always verified. TLS 1.2 and later, and for TLS 1.2 only ``CloakroomCore/TLSCipherSuite`` (ECDHE
/// with AES-GCM or ChaCha20-Poly1305, RFC 9325 §4.2). No option lowers any of this. ``ServerNameVerifier`` adds the
/// part of the verification that NIOSSL omits.
///
/// Module `CloakroomTLS`: the TLS of all connections that the gateway opens, and the verification of the server's name.
public enum UpstreamTLS {
    /// Loads the files of a TLS configuration.
    /// - Parameters:
    ///   - upstream: `nil` is the system's trust roots and no client certificate.
    ///   - protocols: The protocols that are offered by ALPN (RFC 7301); none for protocols without a registered name.
    /// - Throws: ``UpstreamTLSError`` which names the file.
    public static func configuration(
        _ upstream: UpstreamTLSConfiguration?, protocols: [String] = ["http/1.1"]
    ) throws(UpstreamTLSError) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .fullVerification
        configuration.minimumTLSVersion = .tlsv12
        configuration.cipherSuiteValues = TLSCipherSuite.allCases.map(\.cipher)
        configuration.applicationProtocols = protocols
        // No data follows on a closed connection, so there is no need to wait long for the peer.
        configuration.shutdownTimeout = .seconds(1)
        if let file = upstream?.caFile { configuration.trustRoots = .certificates(try certificates(in: file)) }
        if let files = upstream?.clientCertificate {
            configuration.certificateChain = try certificates(in: files.certificateFile).map { .certificate($0) }
            do {
                configuration.privateKey = .privateKey(try PEMFile.privateKey(in: files.keyFile))
            } catch {
                throw UpstreamTLSError(
                    description: "\(files.keyFile): cannot read a private key"
                        + " (use an unencrypted PEM file)")
            }
        }
        return configuration
    }

    /// Creates the TLS context that all connections to an upstream share.
    /// - Parameters:
    ///   - upstream: `nil` is the system's trust roots and no client certificate.
    ///   - protocols: The protocols that are offered by ALPN (RFC 7301).
    /// - Throws: ``UpstreamTLSError`` which names the files.
    public static func context(
        _ upstream: UpstreamTLSConfiguration?, protocols: [String] = ["http/1.1"]
    ) throws(UpstreamTLSError) -> NIOSSLContext {
        let configuration = try configuration(upstream, protocols: protocols)
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            let files = upstream?.clientCertificate.map { "\($0.certificateFile) and \($0.keyFile)" }
            throw UpstreamTLSError(
                description: "\(files ?? upstream?.caFile ?? "TLS with upstreams"): \(error)"
                    + " (check that the key belongs to the certificate, and that the certificates are complete)")
        }
    }

    private static func certificates(in file: String) throws(UpstreamTLSError) -> [NIOSSLCertificate] {
        do {
            let certificates = try PEMFile.certificates(in: file)
            if !certificates.isEmpty { return certificates }
        } catch {}
        throw UpstreamTLSError(
            description: "\(file): cannot read a certificate (use a PEM file)")
    }
}

/// Why the TLS configuration of an upstream cannot be loaded.
public struct UpstreamTLSError: Error, CustomStringConvertible {
    /// The file, the cause, and a suggestion.
    public let description: String
}

extension TLSCipherSuite {
    /// The suite as a value of NIOSSL.
    public var cipher: NIOTLSCipher {
        switch self {
        case .ecdheECDSAWithAES128GCM: .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        case .ecdheRSAWithAES128GCM: .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        case .ecdheECDSAWithAES256GCM: .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        case .ecdheRSAWithAES256GCM: .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
        case .ecdheECDSAWithChaCha20: .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        case .ecdheRSAWithChaCha20: .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
        }
    }
}
