import Crypto
import Foundation
import NIOSSL
import SwiftASN1
import TestSupport
import X509

@testable import CloakroomProxy

/// A temporary folder with a CA and the certificates that it signs, removed after the test.
final class CertificateFixture: Sendable {
    struct Pair: Sendable {
        let certificateFile: String
        let keyFile: String
    }

    private let directory: TemporaryDirectory
    private let authorityKey = P256.Signing.PrivateKey()
    private let authorityName: DistinguishedName

    init(authority: String = "Test Authority") throws {
        directory = try TemporaryDirectory()
        authorityName = try DistinguishedName { CommonName(authority) }
        let certificate = try sign(
            authorityName, authorityKey.publicKey,
            until: Date().addingTimeInterval(86_400),
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            })
        try write(certificate.serializeAsPEM().pemString, to: "ca.crt")
    }

    var path: String { directory.path }
    /// The CA's own certificate.
    var authorityFile: String { path + "/ca.crt" }

    /// A server's certificate and key in `<file>.crt` and `<file>.key`, issued for the names.
    @discardableResult
    func server(
        _ file: String, names: [String], addresses: [[UInt8]] = [], commonName: String? = nil, isExpired: Bool = false,
        isEarly: Bool = false
    ) throws -> Pair {
        let alternatives =
            names.map { GeneralName.dnsName($0) }
            + addresses.map { .ipAddress(ASN1OctetString(contentBytes: $0[...])) }
        return try pair(
            file, subject: try DistinguishedName { CommonName(commonName ?? names.first ?? file) },
            until: Date().addingTimeInterval(isExpired ? -60 : isEarly ? 200_000 : 3_600),
            extensions: try Certificate.Extensions {
                try ExtendedKeyUsage([.serverAuth])
                if !alternatives.isEmpty { SubjectAlternativeNames(alternatives) }
            })
    }

    /// A client's certificate and key.
    @discardableResult
    func client(
        _ file: String, subject: DistinguishedName? = nil, isExpired: Bool = false,
        usage: ExtendedKeyUsage.Usage = .clientAuth
    ) throws -> Pair {
        let name =
            try subject
            ?? DistinguishedName {
                OrganizationName("Example"); CommonName(file)
            }
        return try pair(
            file, subject: name, until: Date().addingTimeInterval(isExpired ? -60 : 3_600),
            extensions: try Certificate.Extensions { try ExtendedKeyUsage([usage]) })
    }

    func write(_ text: String, to name: String) throws {
        try directory.write(text, to: name)
    }

    private func pair(
        _ file: String, subject: DistinguishedName, until end: Date = Date().addingTimeInterval(3_600),
        extensions: Certificate.Extensions
    ) throws -> Pair {
        let key = P256.Signing.PrivateKey()
        let certificate = try sign(subject, key.publicKey, until: end, extensions: extensions)
        try write(certificate.serializeAsPEM().pemString, to: file + ".crt")
        try write(key.pemRepresentation, to: file + ".key")
        return Pair(certificateFile: "\(path)/\(file).crt", keyFile: "\(path)/\(file).key")
    }

    private func sign(
        _ subject: DistinguishedName, _ key: P256.Signing.PublicKey, until end: Date,
        extensions: Certificate.Extensions
    ) throws -> Certificate {
        try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: Certificate.PublicKey(key),
            notValidBefore: end.addingTimeInterval(-90_000), notValidAfter: end, issuer: authorityName,
            subject: subject, signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
            issuerPrivateKey: Certificate.PrivateKey(authorityKey))
    }
}
