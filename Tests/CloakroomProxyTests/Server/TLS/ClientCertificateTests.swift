import CloakroomCore
import Foundation
import NIOSSL
import SwiftASN1
import TestSupport
import Testing
import X509

@testable import CloakroomProxy

@Suite(.timeLimit(.minutes(1))) struct ClientCertificateTests {
    private let directory: CertificateFixture
    private let configuration: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        let pair = try directory.server("server", names: ["localhost"])
        configuration = ListenerTLSConfiguration(
            certificateFile: pair.certificateFile, keyFile: pair.keyFile,
            clientCertificates: ClientCertificateConfiguration(caFile: directory.authorityFile))
    }

    private static let versions: [NIOSSL.TLSVersion] = [.tlsv12, .tlsv13]

    private func connect(
        _ server: TLSEcho, as pair: CertificateFixture.Pair?, version: NIOSSL.TLSVersion
    ) async throws -> TLSClient {
        try await TLSClient.connect(port: server.port) { configuration in
            configuration.maximumTLSVersion = version
            guard let pair else { return }
            configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(pair.certificateFile)
                .map { .certificate($0) }
            configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: pair.keyFile, format: .pem))
        }
    }

    @Test(
        arguments: [(.required, "CN=jo,O=Example"), (.optional, "CN=jo,O=Example"), (.optional, "none")]
            as [(ClientCertificateConfiguration.Mode, String)])
    func aClientIsServedAndItsSubjectIsKnown(mode: ClientCertificateConfiguration.Mode, subject: String) async throws {
        var configuration = configuration
        configuration.clientCertificates?.mode = mode
        let jo = subject == "none" ? nil : try directory.client("jo")
        try await TLSEcho.running(configuration) { server in
            for version in Self.versions {
                let client = try await connect(server, as: jo, version: version)
                expect(client.text.hasSuffix(TLSEcho.subject(subject)))
                try await client.close()
            }
        }
    }

    @Test func withoutACertificateThereIsNoConnectionWhereItIsRequired() async throws {
        try await TLSEcho.running(configuration) { server in
            for version in Self.versions {
                let client = try await connect(server, as: nil, version: version)
                expect(client.isClosed && !client.isServed)
            }
            let output = try await OpenSSL.client(port: server.port, ["-tls1_3"])
            expect(output.contains("alert certificate required"), "\(output)")
            expect(output.contains("CN = Test Authority"), "the CA is named: \(output)")
        }
    }

    @Test(arguments: ClientCertificateConfiguration.Mode.allCases)
    func aBadCertificateIsRejectedInEitherMode(mode: ClientCertificateConfiguration.Mode) async throws {
        var configuration = configuration
        configuration.clientCertificates?.mode = mode
        let other = try CertificateFixture(authority: "Other Authority")
        let stranger = try other.client("jo")
        // A CA with the same name, but with another key.
        let double = try CertificateFixture()
        let impostor = try double.client("jo")
        let late = try directory.client("late", isExpired: true)
        let server = try directory.client("a-server", usage: .serverAuth)
        try await TLSEcho.running(configuration) { echo in
            for version in Self.versions {
                for pair in [stranger, impostor, late, server] {
                    let client = try await connect(echo, as: pair, version: version)
                    expect(client.isClosed && !client.isServed, "\(pair.certificateFile)")
                }
            }
        }
    }

    @Test func aNewAuthorityIsInEffectAfterAReload() async throws {
        let jo = try directory.client("jo")
        let otherDirectory = try CertificateFixture(authority: "Other Authority")
        let other = try otherDirectory.client("other")
        try await TLSEcho.running(configuration) { server in
            try directory.write(
                try String(contentsOfFile: otherDirectory.authorityFile, encoding: .utf8), to: "ca.crt")
            expect(server.tls.isOutdated)
            try server.tls.reload()
            try await expect(connect(server, as: jo, version: .tlsv13).isServed, equals: false)
            let client = try await connect(server, as: other, version: .tlsv13)
            expect(client.isServed)
            try await client.close()
        }
    }

    @Test func aMissingAuthorityFileIsNamed() throws {
        var configuration = configuration
        configuration.clientCertificates?.caFile = directory.path + "/nowhere.crt"
        let error = #expect(throws: ListenerError.self) { try TLSListener(configuration, allowsHTTP2: false) }
        expect(error?.description.contains("nowhere.crt: cannot read a certificate authority"), equals: true)
    }

    @Test func aCertificateThatHasRunOutSinceIsTold() throws {
        let pair = try directory.client("jo")
        let certificate = try require(NIOSSLCertificate.fromPEMFile(pair.certificateFile).first)
        let end = Int64(certificate.notValidAfter)
        expect(!ClientCertificate.isExpired(certificate, at: end))
        expect(ClientCertificate.isExpired(certificate, at: end + 1))
    }
}

/// RFC 4514.
@Suite struct ClientCertificateSubjectTests {
    @Test func theMostSpecificPartComesFirst() throws {
        let name = try DistinguishedName {
            CountryName("DE")
            OrganizationName("Example, Inc.")
            CommonName("Jo \"JJ\" Doe+Co")
        }
        expect(ClientCertificate.text(name), equals: #"CN=Jo \"JJ\" Doe\+Co,O=Example\, Inc.,C=DE"#)
    }

    @Test func whatCannotStandInAFieldIsEscaped() throws {
        let name = try DistinguishedName { CommonName("a\r\nX-API-TOKEN: b\u{0}\u{7f}\té") }
        expect(ClientCertificate.text(name), equals: #"CN=a\0D\0AX-API-TOKEN: b\00\7F\09\C3\A9"#)
    }

    @Test func aValueThatIsNoTextIsGivenAsItsEncoding() throws {
        let number = try ASN1Any(erasing: 5)
        let name = try DistinguishedName([.init(type: .RDNAttributeType.commonName, value: number)])
        expect(ClientCertificate.text(name), equals: "2.5.4.3=#020105")
    }

    @Test func aSubjectThatIsTooLongIsNotToldInPart() throws {
        let limit = ClientCertificate.subjectLimit
        let longest = try DistinguishedName { CommonName(String(repeating: "a", count: limit - 3)) }
        expect(ClientCertificate.text(longest)?.utf8.count, equals: limit)
        let longer = try DistinguishedName { CommonName(String(repeating: "a", count: limit - 2)) }
        expect(ClientCertificate.text(longer), equals: nil)
        expect(ClientCertificate.text(DistinguishedName()), equals: nil)
    }
}
