import CloakroomCore
import NIOSSL
import SwiftASN1
import X509

/// A certificate that clients are shown, with its key.
struct ServerCertificate: Sendable {
    /// Where the certificate was read from.
    let file: String
    let chain: [NIOSSLCertificateSource]
    let key: NIOSSLPrivateKeySource
    /// The DNS names that it is made out to, in lower case. The common name is none of them (RFC 9525 §6.3).
    let names: [String]
    /// When it expires, in seconds since 1970.
    let notAfter: Int64

    /// Reads a pair.
    /// - Parameter section: The key of the section with both files; see ``ConfigFinding``.
    /// - Throws: ``ListenerError`` which names the file.
    init(_ pair: CertificateConfiguration, at section: [String]) throws {
        func error(_ name: String, _ message: String, _ suggestion: String) -> ListenerError {
            ListenerError(ConfigFinding(key: section + [name], message: message, suggestion: suggestion))
        }
        file = pair.certificateFile
        let certificates: [NIOSSLCertificate]
        do {
            certificates = try NIOSSLCertificate.fromPEMFile(pair.certificateFile)
        } catch _ {
            throw error(
                "certificateFile", "\(pair.certificateFile): no certificate can be read from it",
                "give a PEM file, the server's certificate first")
        }
        chain = certificates.map { .certificate($0) }
        do {
            key = .privateKey(try NIOSSLPrivateKey(file: pair.keyFile, format: .pem))
        } catch _ {
            throw error(
                "keyFile", "\(pair.keyFile): no private key can be read from it", "give an unencrypted PEM file")
        }
        names = certificates.first.map(Self.names) ?? []
        notAfter = certificates.first.map { Int64($0.notValidAfter) } ?? 0
        do {
            // BoringSSL compares the two when it is given both. Only here: in a handshake it would be too late.
            _ = try NIOSSLContext(
                configuration: .makeServerConfiguration(certificateChain: chain, privateKey: key))
        } catch _ {
            throw error(
                "keyFile",
                "\(pair.certificateFile) and \(pair.keyFile) do not go together: the key belongs to another certificate",
                "name the key that the first certificate in the file was made for")
        }
    }

    private static func names(of certificate: NIOSSLCertificate) -> [String] {
        guard let bytes = try? certificate.toDERBytes(), let parsed = try? Certificate(derEncoded: bytes),
            let names = try? parsed.extensions.subjectAlternativeNames
        else { return [] }
        return names.compactMap { if case .dnsName(let name) = $0 { name.lowercased() } else { nil } }
    }
}
