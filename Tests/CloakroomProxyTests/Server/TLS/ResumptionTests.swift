import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomProxy

/// Session tickets (RFC 5077, RFC 8446 §2.2).
@Suite(.timeLimit(.minutes(1))) struct ResumptionTests {
    private let directory: CertificateFixture
    private let configuration: ListenerTLSConfiguration

    init() throws {
        directory = try CertificateFixture()
        let standard = try directory.server("default", names: ["default.test"])
        let other = try directory.server("other", names: ["other.test"])
        configuration = standard.listener(and: [other])
    }

    private var sessionFile: String { directory.path + "/session.pem" }

    private func handshake(_ server: TLSEcho, _ version: String, _ name: String, _ session: String) async throws
        -> String
    {
        try await OpenSSL.client(
            port: server.port, [version, "-servername", name, session, sessionFile])
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"], ["default.test", "other.test"])
    func aClientThatComesBackResumesItsSession(version: String, name: String) async throws {
        try await TLSEcho.running(configuration) { server in
            let first = try await handshake(server, version, name, "-sess_out")
            expect(first.contains("New, TLSv1"), "\(first)")
            expect(first.contains("subject=CN = \(name)"), "\(first)")
            let second = try await handshake(server, version, name, "-sess_in")
            expect(second.contains("Reused, TLSv1"), "\(second)")
            expect(second.contains("protocol=none"), "\(second)")
        }
    }

    @Test func reconnectingResumesEachTime() async throws {
        try await TLSEcho.running(configuration) { server in
            let output = try await OpenSSL.client(port: server.port, ["-tls1_2", "-reconnect"])
            expect(output.components(separatedBy: "Reused, TLSv1.2").count, equals: 6, "\(output)")
        }
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func afterAReloadAnOldTicketLeadsToAFullHandshake(version: String) async throws {
        try await TLSEcho.running(configuration) { server in
            _ = try await handshake(server, version, "other.test", "-sess_out")
            try server.tls.reload()
            let second = try await handshake(server, version, "other.test", "-sess_in")
            expect(second.contains("New, TLSv1"), "\(second)")
            expect(second.contains("protocol=none"), "\(second)")
        }
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aResumedSessionBringsTheClientsCertificateAlong(version: String) async throws {
        let jo = try directory.client("jo")
        var configuration = configuration
        configuration.clientCertificates = ClientCertificateConfiguration(caFile: directory.authorityFile)
        try await TLSEcho.running(configuration) { server in
            let identity = ["-cert", jo.certificateFile, "-key", jo.keyFile]
            _ = try await OpenSSL.client(port: server.port, [version, "-sess_out", sessionFile] + identity)
            let second = try await OpenSSL.client(port: server.port, [version, "-sess_in", sessionFile])
            expect(second.contains("Reused, TLSv1"), "\(second)")
            expect(second.contains(TLSEcho.subject("CN=jo,O=Example")), "\(second)")
        }
    }
}
