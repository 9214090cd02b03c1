import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI
@testable import cloakroom_demo

/// `cloakroom serve` with files and sockets of the real system.
@Suite("Serving", .serialized, .timeLimit(.minutes(3)))
struct ServeTests {
    @Test("A port of the demo that is in use is named, and the exit status is 1")
    func portInUse() async throws {
        try await ScriptedServer.run { port, _ in
            let demo = try Executables.demo()
            let commands = [
                ["mock-api", "--port", "\(port)"],
                ["--port", "\(port)", "--clear-port", "0", "--admin-port", "0", "--api-port", "0"],
                ["demo", "--port", "0", "--clear-port", "0", "--admin-port", "0", "--api-port", "\(port)"],
            ]
            for command in commands {
                let result = try await ChildProgram.run(demo, command)
                expect(result.ending, equals: ChildProgram.Ending(status: 1), "\(command)")
                let lines = result.errors.split(separator: "\n")
                expect(lines.count, equals: 1, "\(result.errors)")
                expect(result.errors.contains("127.0.0.1:\(port)"), "\(result.errors)")
                expect(result.errors.lowercased().contains("address already in use"), "\(result.errors)")
            }
        }
    }

    @Test("The metrics of a complete scenario pass promtool")
    func promtool() async throws {
        let promtool = try Executables.onPath("promtool", package: "prometheus")
        try await GatewayProcess.running { gateway, mock in
            let client = gateway.client
            _ = try await client.get("/episodes")
            _ = try await client.get("/videos/1")
            _ = try await client.signIn(password: "wrong")
            _ = try await client.signIn()
            _ = try await client.get("/videos/1")
            mock.faults.failNext("GET", "/videos/2", statuses: [503])
            _ = try await client.get("/videos/2")
            _ = try await client.get("/nothing")
            _ = try await RawPeer.exchange(Array("nonsense\r\n\r\n".utf8), port: gateway.clear.port)
            _ = try await client.send("DELETE", "/auth")
            let metrics = try await WebClient(gateway.admin).get("/metrics")
            expect(metrics.status, equals: 200)
            for name in [
                "cloakroom_sign_ins_total", "cloakroom_sessions_created_total", "cloakroom_sessions_ended_total",
                "cloakroom_rejections_total", "cloakroom_auth_decisions_total",
                "http_server_request_duration_seconds",
            ] {
                expect(metrics.body.contains(name))
            }
            let directory = try TemporaryDirectory()
            try directory.write(metrics.body, to: "metrics")
            let result = try await ChildProgram.run(
                URL(fileURLWithPath: "/bin/sh"), ["-c", "exec '\(promtool.path)' check metrics < metrics"],
                directory: directory.url)
            expect(result.ending.status, equals: 0, "\(result.output)\(result.errors)")
        }
    }
}
