import CloakroomCore
package import NIOSSL

/// Reads certificates and keys of PEM files. NIOSSL would wait for the writer of a FIFO.
package enum PEMFile {
    /// - Throws: `NIOSSLError` if the file cannot be read, or has no certificate.
    package static func certificates(in file: String) throws -> [NIOSSLCertificate] {
        guard let bytes = RegularFile.contents(of: file), !bytes.isEmpty else {
            throw NIOSSLError.failedToLoadCertificate
        }
        return try NIOSSLCertificate.fromPEMBytes(bytes)
    }

    /// - Throws: `NIOSSLError` if the file cannot be read, or has no unencrypted key.
    package static func privateKey(in file: String) throws -> NIOSSLPrivateKey {
        guard let bytes = RegularFile.contents(of: file), !bytes.isEmpty else {
            throw NIOSSLError.failedToLoadPrivateKey
        }
        return try NIOSSLPrivateKey(bytes: bytes, format: .pem)
    }
}
