public import CloakroomCore
import NIOCore
public import NIOSSL

/// TLS with upstreams: always verified, TLS 1.2 and up, HTTP/1.1 by ALPN (RFC 7301).
public enum UpstreamTLS {
    /// Reads the files of a plan.
    /// - Parameter plan: `nil` is the system's trust roots and no certificate of our own.
    /// - Throws: ``UpstreamTLSError`` which names the file.
    public static func configuration(_ plan: UpstreamTLSPlan?) throws(UpstreamTLSError) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .fullVerification
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        // A connection that is closed has nothing more to say: its other end need not be waited for.
        configuration.shutdownTimeout = .seconds(1)
        if let file = plan?.caFile { configuration.trustRoots = .certificates(try certificates(in: file)) }
        if let files = plan?.clientCertificate {
            configuration.certificateChain = try certificates(in: files.certificateFile).map { .certificate($0) }
            do {
                configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: files.keyFile, format: .pem))
            } catch {
                throw UpstreamTLSError(
                    description: "\(files.keyFile): no private key can be read from it"
                        + " (give an unencrypted PEM file)")
            }
        }
        return configuration
    }

    /// Makes what all connections to an upstream share.
    static func context(_ plan: UpstreamTLSPlan?) throws(UpstreamTLSError) -> NIOSSLContext {
        let configuration = try configuration(plan)
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            let files = plan?.clientCertificate.map { "\($0.certificateFile) and \($0.keyFile)" }
            throw UpstreamTLSError(
                description: "\(files ?? plan?.caFile ?? "TLS with upstreams"): \(error)"
                    + " (check that the key belongs to the certificate, and that the certificates are whole)")
        }
    }

    private static func certificates(in file: String) throws(UpstreamTLSError) -> [NIOSSLCertificate] {
        do {
            let certificates = try NIOSSLCertificate.fromPEMFile(file)
            if !certificates.isEmpty { return certificates }
        } catch {}
        throw UpstreamTLSError(
            description: "\(file): no certificate can be read from it (give a PEM file)")
    }
}

/// Why there can be no TLS with an upstream.
public struct UpstreamTLSError: Error, CustomStringConvertible {
    /// Which file, why, and what to do.
    public let description: String
}
