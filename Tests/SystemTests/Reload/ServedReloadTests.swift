import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// A running `cloakroom serve` whose configuration file changes.
@Suite("Served reload", .serialized, .timeLimit(.minutes(2)))
struct ServedReloadTests {
    @Test("After SIGHUP a route requires a session; an invalid file then changes nothing and is reported")
    func signal() async throws {
        try await GatewayProcess.running(set: ["reload.interval=0s"]) { gateway, _ in
            let (client, program) = (gateway.client, gateway.program)
            #expect(try await client.get("/episodes").status == 200)
            try gateway.write(
                gateway.yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true"))
            program.send(SIGHUP)
            try await eventually("the route requires a session") { try await client.get("/episodes").status == 401 }

            try gateway.write(gateway.yaml.replacing("path: /episodes", with: "path: episodes"))
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
        try await GatewayProcess.running(set: ["reload.interval=100ms"]) { gateway, _ in
            try gateway.write(
                gateway.yaml.replacing("requiresAuthorization: false", with: "requiresAuthorization: true"))
            try await eventually("the route requires a session") {
                try await gateway.client.get("/episodes").status == 401
            }
        }
    }
}
