import CloakroomCore
import NIOSSL
import TestSupport
import Testing

@testable import CloakroomProxy

/// The result of a handshake: version, cipher suite, protocol.
@Suite(.timeLimit(.minutes(1))) struct ProtocolTests {
    private let directory: CertificateFixture
    private let configuration: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        configuration = try directory.server("server", names: ["localhost"]).listener
    }

    @Test func versionsBelowTheLeastAreRejected() async throws {
        try await TLSEcho.running(configuration) { server in
            // The client's own minimum is lowered, so that the server is the one that rejects.
            let old = try await OpenSSL.client(port: server.port, ["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"])
            expect(old.contains("alert protocol version"), "\(old)")
            let current = try await OpenSSL.client(port: server.port, ["-tls1_2"])
            expect(current.contains("protocol=none"), "\(current)")
        }
        var configuration = configuration
        configuration.minimumVersion = .tls13
        try await TLSEcho.running(configuration) { server in
            let old = try await OpenSSL.client(port: server.port, ["-tls1_2"])
            expect(old.contains("alert protocol version"), "\(old)")
            let current = try await OpenSSL.client(port: server.port, ["-tls1_3"])
            expect(current.contains("protocol=none"), "\(current)")
        }
    }

    @Test(arguments: [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", true), ("ECDHE-ECDSA-AES256-GCM-SHA384", true),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", true), ("ECDHE-ECDSA-AES128-SHA", false),
        ("ECDHE-ECDSA-AES256-SHA384", false), ("AES128-GCM-SHA256", false), ("AES256-SHA", false),
    ])
    func onlySuitesWithForwardSecrecyAndAuthenticatedEncryptionAreSpoken(suite: String, isSpoken: Bool) async throws {
        try await TLSEcho.running(configuration) { server in
            let output = try await OpenSSL.client(
                port: server.port, ["-tls1_2", "-cipher", suite + ":@SECLEVEL=0"])
            expect(output.contains("Cipher is \(suite)"), equals: isSpoken, "\(output)")
            expect(output.contains("alert handshake failure"), equals: !isSpoken, "\(output)")
        }
    }

    @Test(
        "RFC 7301: the server's order of preference decides",
        arguments: [
            (true, ["h2", "http/1.1"], "h2"), (true, ["http/1.1", "h2"], "h2"), (true, ["http/1.1"], "http/1.1"),
            (true, [], "none"), (false, ["h2", "http/1.1"], "http/1.1"), (false, ["http/1.1"], "http/1.1"),
            // Such a client should be rejected (§3.2), which the library does not support.
            (false, ["h2"], "none"), (true, ["imap"], "none"),
        ])
    func applicationProtocol(allowsHTTP2: Bool, offered: [String], agreed: String) async throws {
        try await TLSEcho.running(configuration, allowsHTTP2: allowsHTTP2) { server in
            let client = try await TLSClient.connect(port: server.port) { $0.applicationProtocols = offered }
            expect(client.text.hasPrefix("protocol=\(agreed)\n"))
            try await client.close()
        }
    }

    @Test("RFC 5746: a client that tries to renegotiate is disconnected")
    func renegotiation() async throws {
        try await TLSEcho.running(configuration) { server in
            // A line with an R makes this client renegotiate.
            let output = try await OpenSSL.client(
                port: server.port, ["-tls1_2", "-legacy_renegotiation"], input: "R\n")
            expect(output.contains("RENEGOTIATING"), "\(output)")
            // The input contains nothing else that would make the server close the connection.
            expect(output.contains("unexpected eof") || output.contains("alert"), "\(output)")
        }
    }
}
