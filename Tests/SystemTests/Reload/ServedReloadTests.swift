import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// A running `cloakroom serve` whose configuration file changes.
@Suite("Served reload", .serialized, .timeLimit(.minutes(2)))
struct ServedReloadTests {
    /// Serves a configuration that can be changed while `body` runs.
    private func serving(
        set: [String], body: (ChildProgram, WebClient, _ write: (String) throws -> Void, String) async throws -> Void
    ) async throws {
        try await MockAPI.withServer(.withTwoUsers) { mock in
            let directory = try TemporaryDirectory()
            let yaml = GatewayYAML(upstream: mock.baseURL).yaml
            try directory.write(yaml, to: "cloakroom.yaml")
            let arguments =
                ["serve", "--config", directory.path(of: "cloakroom.yaml")] + set.flatMap { ["--set", $0] }
            try await ChildProgram.running(try Executables.cloakroom(), arguments) { program in
                let address = try await program.waits(for: "clients can connect") { program in
                    program.logLines.first { $0.message == "listening" }?.address
                }
                try await body(
                    program, WebClient("http://\(address)"), { try directory.write($0, to: "cloakroom.yaml") }, yaml)
            }
        }
    }

    @Test("After SIGHUP a route requires a session; an invalid file then changes nothing and is reported")
    func signal() async throws {
        try await serving(set: ["reload.interval=0s"]) { program, client, write, yaml in
            #expect(try await client.get("/episodes").status == 200)
            let locked = yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true")
            try write(locked)
            program.send(SIGHUP)
            try await eventually("the route requires a session") { try await client.get("/episodes").status == 401 }

            try write(yaml.replacing("path: /episodes", with: "path: episodes"))
            program.send(SIGHUP)
            _ = try await program.waits(for: "the mistake") { program in
                program.output.contains("routes.0.path") ? true : nil
            }
            #expect(program.output.contains("cloakroom.yaml:"))
            #expect(try await client.get("/episodes").status == 401)
            #expect(program.isRunning)
        }
    }

    @Test("A watched file is reloaded without a signal")
    func watched() async throws {
        try await serving(set: ["reload.interval=100ms"]) { _, client, write, yaml in
            try write(yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true"))
            try await eventually("the route requires a session") { try await client.get("/episodes").status == 401 }
        }
    }
}
