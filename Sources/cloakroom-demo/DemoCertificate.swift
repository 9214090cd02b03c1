import Crypto
import Foundation
import SwiftASN1
import X509

/// A self-signed certificate for localhost, created for each run.
struct DemoCertificate {
    let certificateFile: String
    let keyFile: String
    /// The folder of the files.
    let directory: URL

    /// Creates a key and a certificate in a folder that only this user can read.
    init() throws {
        // Short, because the path of a socket in it has at most 107 bytes.
        directory = FileManager.default.temporaryDirectory
            .appending(path: "cloakroom-demo-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("localhost") }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: Certificate.PublicKey(key.publicKey),
            notValidBefore: Date().addingTimeInterval(-3_600), notValidAfter: Date().addingTimeInterval(30 * 86_400),
            issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(digitalSignature: true, keyCertSign: true))
                try ExtendedKeyUsage([.serverAuth])
                SubjectAlternativeNames([
                    .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
                    .ipAddress(ASN1OctetString(contentBytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
                ])
            }, issuerPrivateKey: Certificate.PrivateKey(key))
        let certificateURL = directory.appending(path: "localhost.crt")
        let keyURL = directory.appending(path: "localhost.key")
        try Data(certificate.serializeAsPEM().pemString.utf8).write(to: certificateURL)
        try Data(key.pemRepresentation.utf8).write(to: keyURL)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keyURL.path)
        certificateFile = certificateURL.path
        keyFile = keyURL.path
    }

    /// Deletes the folder.
    func remove() {
        try? FileManager.default.removeItem(at: directory)
    }
}
