import CloakroomCore
import CloakroomTLS
import NIOSSL
import SwiftASN1
import X509

struct ServerCertificate: Sendable {
    /// File that the certificate was read from.
    let file: String
    let chain: [NIOSSLCertificateSource]
    let key: NIOSSLPrivateKeySource
    /// DNS names the certificate is issued for, in lower case. The common name is not included (RFC 9525 §6.3).
    let names: [String]
    /// Expiry time, in seconds since 1970.
    let notAfter: Int64

    /// Reads certificate and key.
    /// - Parameter section: Key of the section with both files; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ pair: CertificateConfiguration, at section: [String]) throws {
        func error(_ name: String, _ message: String, _ suggestion: String) -> ListenerError {
            ListenerError(ConfigFinding(key: section + [name], message: message, suggestion: suggestion))
        }
        file = pair.certificateFile
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try PEMFile.certificates(in: pair.certificateFile)
        } catch _ {
            throw error(
                "certificateFile", "\(pair.certificateFile): cannot read a certificate",
                "use a PEM file, the server's certificate first")
        }
        chain = certificates.map { .certificate($0) }
        do {
            key = .privateKey(try PEMFile.privateKey(in: pair.keyFile))
        } catch _ {
            throw error(
                "keyFile", "\(pair.keyFile): cannot read a private key", "use an unencrypted PEM file")
        }
        names = certificates.first.map(Self.names) ?? []
        notAfter = certificates.first.map { Int64($0.notValidAfter) } ?? 0
        do {
            // BoringSSL compares certificate and key when a context is created. Without this check a mismatch would
            // surface only in handshakes.
            _ = try NIOSSLContext(
                configuration: .makeServerConfiguration(certificateChain: chain, privateKey: key))
        } catch _ {
            throw error(
                "keyFile",
                "\(pair.certificateFile) and \(pair.keyFile) do not match: the key belongs to another certificate",
                "use the key of the first certificate in the file")
        }
    }

    private static func names(of certificate: NIOSSLCertificate) -> [String] {
        guard let bytes = try? certificate.toDERBytes(), let parsed = try? Certificate(derEncoded: bytes),
            let names = try? parsed.extensions.subjectAlternativeNames
        else { return [] }
        return names.compactMap { if case .dnsName(let name) = $0 { name.lowercased() } else { nil } }
    }
}
