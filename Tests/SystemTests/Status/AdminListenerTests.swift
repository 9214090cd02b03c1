import Foundation
import TestSupport
import Testing

@testable import cloakroom

/// The admin listener of the built program, requested with curl.
@Suite("The admin listener from outside", .serialized, .timeLimit(.minutes(3)))
struct AdminListenerTests {
    private func serving(
        _ set: [String], _ body: (_ address: String, GatewayProcess) async throws -> Void
    ) async throws {
        try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9"), set: set) { gateway in
            try await body(String(gateway.admin.dropFirst("http://".count)), gateway)
        }
    }

    /// Creates a self-signed certificate for `localhost`, its own authority.
    private func certificate(_ name: String, usage: String, in directory: TemporaryDirectory) async throws {
        let made = try await ChildProgram.run(
            try Executables.onPath("openssl", package: "openssl"),
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", "/CN=\(name)", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-addext", "extendedKeyUsage=\(usage)", "-keyout", directory.path(of: "\(name).key"),
                "-out", directory.path(of: "\(name).crt"),
            ])
        try require(made.ending.status == 0, "\(made.errors)")
    }

    @Test(
        "Rule 69: a client without a certificate gets nothing, or with mode optional only probes",
        arguments: ["required", "optional"])
    func clientCertificates(mode: String) async throws {
        let directory = try TemporaryDirectory()
        try await certificate("server", usage: "serverAuth", in: directory)
        try await certificate("client", usage: "clientAuth", in: directory)
        try await certificate("other", usage: "clientAuth", in: directory)
        let set = [
            "admin.tls.certificateFile=\(directory.path(of: "server.crt"))",
            "admin.tls.keyFile=\(directory.path(of: "server.key"))",
            "admin.tls.clientCertificates.caFile=\(directory.path(of: "client.crt"))",
            "admin.tls.clientCertificates.mode=\(mode)",
        ]
        func identity(_ name: String) -> [String] {
            ["--cert", directory.path(of: "\(name).crt"), "--key", directory.path(of: "\(name).key")]
        }
        try await serving(set) { address, gateway in
            let curl = try Curl()
            let plain = [
                "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", directory.path(of: "server.crt"),
            ]
            for (path, with) in [("metrics", "200"), ("status.json", "200"), ("ready", "200"), ("nothing", "404")] {
                let known = try await curl.run(plain + identity("client") + ["https://\(address)/\(path)"])
                expect(known.output, equals: with, "/\(path) \(known.errors)")
                let unknown = try await curl.run(plain + identity("other") + ["https://\(address)/\(path)"])
                expect(unknown.output, equals: "000", "/\(path)")
                let none = try await curl.run(plain + ["https://\(address)/\(path)"])
                let expected = mode == "required" ? "000" : path == "ready" ? "200" : "403"
                expect(none.output, equals: expected, "/\(path)")
            }
            func isHealthy() async throws -> Bool {
                let arguments = ["health", "--admin", address, "--ca-file", directory.path(of: "server.crt")]
                return try await cloakroom(arguments).ending.status == 0
            }
            if mode == "optional" {
                // A busy machine may take longer than the 2 s that the command waits.
                try await eventually("the gateway is reported as ready") { try await isHealthy() }
            } else {
                try await expect(!isHealthy())
            }
            let clear = try await curl.run(plain + ["http://\(address)/metrics"])
            expect(clear.output != "200")
            let page = try await curl.run(
                ["-s", "--cacert", directory.path(of: "server.crt")] + identity("client")
                    + ["https://\(address)/status.json"])
            expect(page.output.contains("server.crt"), "the certificate is on the status page")
        }
    }
}
