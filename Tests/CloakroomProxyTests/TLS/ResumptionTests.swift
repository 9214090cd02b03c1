import CloakroomCore
import Foundation
import Testing

@testable import CloakroomProxy

/// Session tickets (RFC 5077, RFC 8446 §2.2).
@Suite(.timeLimit(.minutes(1))) struct ResumptionTests {
    private let folder: CertificateFolder
    private let plan: TLSPlan

    init() throws {
        folder = try CertificateFolder()
        let standard = try folder.server("default", names: ["default.test"])
        let other = try folder.server("other", names: ["other.test"])
        plan = TLSPlan(
            certificateFile: standard.certificateFile, keyFile: standard.keyFile,
            moreCertificates: [CertificatePlan(certificateFile: other.certificateFile, keyFile: other.keyFile)])
    }

    private var sessionFile: String { folder.path + "/session.pem" }

    private func handshake(_ server: TLSEcho, _ version: String, _ name: String, _ session: String) async throws
        -> String
    {
        try await OpenSSL.client(
            port: server.port, [version, "-servername", name, session, sessionFile])
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"], ["default.test", "other.test"])
    func aClientThatComesBackResumesItsSession(version: String, name: String) async throws {
        try await TLSEcho.running(plan) { server in
            let first = try await handshake(server, version, name, "-sess_out")
            #expect(first.contains("New, TLSv1"), "\(first)")
            #expect(first.contains("subject=CN = \(name)"), "\(first)")
            let second = try await handshake(server, version, name, "-sess_in")
            #expect(second.contains("Reused, TLSv1"), "\(second)")
            #expect(second.contains("protocol=none"), "\(second)")
        }
    }

    @Test func reconnectingResumesEachTime() async throws {
        try await TLSEcho.running(plan) { server in
            let output = try await OpenSSL.client(port: server.port, ["-tls1_2", "-reconnect"])
            #expect(output.components(separatedBy: "Reused, TLSv1.2").count == 6, "\(output)")
        }
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func afterAReloadAnOldTicketLeadsToAFullHandshake(version: String) async throws {
        try await TLSEcho.running(plan) { server in
            _ = try await handshake(server, version, "other.test", "-sess_out")
            try server.tls.reload()
            let second = try await handshake(server, version, "other.test", "-sess_in")
            #expect(second.contains("New, TLSv1"), "\(second)")
            #expect(second.contains("protocol=none"), "\(second)")
        }
    }

    @Test(arguments: ["-tls1_2", "-tls1_3"])
    func aResumedSessionBringsTheClientsCertificateAlong(version: String) async throws {
        let jo = try folder.client("jo")
        var plan = plan
        plan.clientCertificates = ClientCertificatePlan(caFile: folder.authorityFile)
        try await TLSEcho.running(plan) { server in
            let identity = ["-cert", jo.certificateFile, "-key", jo.keyFile]
            _ = try await OpenSSL.client(port: server.port, [version, "-sess_out", sessionFile] + identity)
            let second = try await OpenSSL.client(port: server.port, [version, "-sess_in", sessionFile])
            #expect(second.contains("Reused, TLSv1"), "\(second)")
            #expect(second.contains(TLSEcho.subject("CN=jo,O=Example")), "\(second)")
        }
    }
}
