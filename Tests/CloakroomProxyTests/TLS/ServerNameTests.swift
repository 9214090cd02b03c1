import CloakroomCore
import NIOSSL
import Testing

@testable import CloakroomProxy

/// RFC 6066 §3.
@Suite(.timeLimit(.minutes(1))) struct ServerNameTests {
    private let folder: CertificateFolder
    private let plan: TLSPlan

    init() throws {
        folder = try CertificateFolder()
        let standard = try folder.server("default", names: ["default.test"])
        let more = try [
            folder.server("a", names: ["a.test", "also-a.test"]),
            folder.server("wild", names: ["*.a.test"], commonName: "wild"),
            folder.server("www", names: ["www.a.test"]),
        ]
        plan = TLSPlan(
            certificateFile: standard.certificateFile, keyFile: standard.keyFile,
            moreCertificates: more.map {
                CertificatePlan(certificateFile: $0.certificateFile, keyFile: $0.keyFile)
            })
    }

    @Test(
        arguments: [
            (nil, "default.test"), ("default.test", "default.test"), ("a.test", "a.test"), ("also-a.test", "a.test"),
            ("x.a.test", "wild"), ("www.a.test", "www.a.test"), ("WWW.A.TEST", "www.a.test"),
            ("x.y.a.test", "default.test"), ("nobody.test", "default.test"),
        ] as [(String?, String)])
    func theCertificateIsTheOneForTheNameThatTheClientAsksFor(name: String?, shown: String) async throws {
        try await TLSEcho.running(plan) { server in
            for version in [NIOSSL.TLSVersion.tlsv12, .tlsv13] {
                let client = try await TLSClient.connect(port: server.port, serverName: name) {
                    $0.maximumTLSVersion = version
                }
                #expect(client.serverName == shown)
                #expect(client.version == version)
                #expect(client.isServed)
                try await client.echo("hello")
                try await client.close()
            }
        }
    }

    @Test func aHelloThatComesInSmallPiecesFindsItsCertificateToo() async throws {
        try await TLSEcho.running(plan) { server in
            // Each record holds at most 512 bytes, which splits a hello with a long list of protocols.
            let protocols = (0..<80).map { "protocol-\($0)" }.joined(separator: ",")
            let output = try await OpenSSL.client(
                port: server.port,
                ["-servername", "www.a.test", "-alpn", protocols, "-max_send_frag", "512", "-tls1_3"])
            #expect(output.contains("subject=CN = www.a.test"), "\(output)")
            #expect(output.contains("protocol=none"), "\(output)")
        }
    }

    @Test(arguments: [false, true])
    func keysMayBeOfDifferentKinds(isRSADefault: Bool) async throws {
        let rsa = CertificatePlan(certificateFile: folder.path + "/rsa.crt", keyFile: folder.path + "/rsa.key")
        try OpenSSL.makeRSACertificate(
            name: "rsa.test", certificateFile: rsa.certificateFile, keyFile: rsa.keyFile)
        var plan = plan
        plan.moreCertificates = [isRSADefault ? plan.certificate : rsa]
        if isRSADefault { plan.certificate = rsa }
        try await TLSEcho.running(plan) { server in
            for name in ["rsa.test", "default.test"] {
                for version in ["-tls1_2", "-tls1_3"] {
                    let output = try await OpenSSL.client(port: server.port, [version, "-servername", name])
                    #expect(output.contains("subject=CN = \(name)"), "\(output)")
                    #expect(output.contains("protocol=none"), "\(output)")
                }
            }
        }
    }

    @Test func aCertificateThatNobodyCouldAskForIsRefused() throws {
        let nameless = try folder.server("nameless", names: [])
        var plan = plan
        plan.moreCertificates.append(
            CertificatePlan(certificateFile: nameless.certificateFile, keyFile: nameless.keyFile))
        let error = #expect(throws: ListenerError.self) { try TLSListener(plan, allowsHTTP2: false) }
        #expect(error?.description.contains("nameless.crt: it is made out to no DNS name") == true)
        // As the default it is what everybody gets.
        _ = try TLSListener(
            TLSPlan(certificateFile: nameless.certificateFile, keyFile: nameless.keyFile), allowsHTTP2: false)
    }

    @Test func aKeyOfAnotherCertificateIsRefusedByTheNamesOfTheFiles() throws {
        var plan = plan
        plan.moreCertificates[1].keyFile = plan.certificate.keyFile
        let error = #expect(throws: ListenerError.self) { try TLSListener(plan, allowsHTTP2: false) }
        #expect(error?.description.contains("wild.crt and ") == true)
        #expect(error?.description.contains("default.key do not go together") == true)
    }
}
