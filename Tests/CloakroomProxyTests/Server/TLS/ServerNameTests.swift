import CloakroomCore
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomProxy

/// RFC 6066 §3.
@Suite(.timeLimit(.minutes(1))) struct ServerNameTests {
    private let directory: CertificateFixture
    private let configuration: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        let standard = try directory.server("default", names: ["default.test"])
        let more = try [
            directory.server("a", names: ["a.test", "also-a.test"]),
            directory.server("wild", names: ["*.a.test"], commonName: "wild"),
            directory.server("www", names: ["www.a.test"]),
        ]
        configuration = standard.listener(and: more)
    }

    @Test(
        arguments: [
            (nil, "default.test"), ("default.test", "default.test"), ("a.test", "a.test"), ("also-a.test", "a.test"),
            ("x.a.test", "wild"), ("www.a.test", "www.a.test"), ("WWW.A.TEST", "www.a.test"),
            ("x.y.a.test", "default.test"), ("nobody.test", "default.test"),
        ] as [(String?, String)])
    func theCertificateIsTheOneForTheNameThatTheClientAsksFor(name: String?, shown: String) async throws {
        try await TLSEcho.running(configuration) { server in
            for version in [NIOSSL.TLSVersion.tlsv12, .tlsv13] {
                let client = try await TLSClient.connect(port: server.port, serverName: name) {
                    $0.minimumTLSVersion = version
                    $0.maximumTLSVersion = version
                }
                expect(client.serverName, equals: shown)
                expect(client.isServed)
                try await client.echo("hello")
                try await client.close()
            }
        }
    }

    @Test func aHelloThatComesInSmallPiecesFindsItsCertificateToo() async throws {
        try await TLSEcho.running(configuration) { server in
            // Each record has at most 512 bytes, which splits a ClientHello with a long list of protocols.
            let protocols = (0..<80).map { "protocol-\($0)" }.joined(separator: ",")
            let output = try await OpenSSL.client(
                port: server.port,
                ["-servername", "www.a.test", "-alpn", protocols, "-max_send_frag", "512", "-tls1_3"])
            expect(output.contains("subject=CN = www.a.test"), "\(output)")
            expect(output.contains("protocol=none"), "\(output)")
        }
    }

    @Test(arguments: [false, true])
    func keysMayBeOfDifferentKinds(isRSADefault: Bool) async throws {
        let rsa = CertificateConfiguration(
            certificateFile: directory.path + "/rsa.crt", keyFile: directory.path + "/rsa.key")
        try SelfSignedCertificate.makeRSA(
            name: "rsa.test", names: "DNS:rsa.test", certificateFile: rsa.certificateFile, keyFile: rsa.keyFile)
        var configuration = configuration
        configuration.additionalCertificates = [isRSADefault ? configuration.certificate : rsa]
        if isRSADefault { configuration.certificate = rsa }
        try await TLSEcho.running(configuration) { server in
            for name in ["rsa.test", "default.test"] {
                for version in ["-tls1_2", "-tls1_3"] {
                    let output = try await OpenSSL.client(port: server.port, [version, "-servername", name])
                    expect(output.contains("subject=CN = \(name)"), "\(output)")
                    expect(output.contains("protocol=none"), "\(output)")
                }
            }
        }
    }

    @Test func aCertificateThatNobodyCouldAskForIsRejected() throws {
        let nameless = try directory.server("nameless", names: [])
        var configuration = configuration
        configuration.additionalCertificates.append(
            CertificateConfiguration(certificateFile: nameless.certificateFile, keyFile: nameless.keyFile))
        let error = #expect(throws: ListenerError.self) { try TLSListener(configuration, allowsHTTP2: false) }
        expect(error?.description.contains("nameless.crt: no DNS subject alternative name"), equals: true)
        // The default certificate is used for all names.
        _ = try TLSListener(
            nameless.listener,
            allowsHTTP2: false)
    }

    @Test func aKeyOfAnotherCertificateIsRejectedByTheNamesOfTheFiles() throws {
        var configuration = configuration
        configuration.additionalCertificates[1].keyFile = configuration.certificate.keyFile
        let error = #expect(throws: ListenerError.self) { try TLSListener(configuration, allowsHTTP2: false) }
        expect(error?.description.contains("wild.crt and "), equals: true)
        expect(error?.description.contains("default.key do not match"), equals: true)
    }
}
