import ArgumentParser
import AsyncHTTPClient
import CloakroomConfig
import CloakroomCore
import Foundation
import Glibc
import MockAPI
import NIOCore
import TestSupport
import Testing

@testable import cloakroom

/// `cloakroom health`, and the option `--log-level` of `serve`.
@Suite("Health", .serialized, .timeLimit(.minutes(3)))
struct HealthTests {
    private func health(
        _ arguments: [String], environment: [String: String] = [:], directory: URL? = nil
    ) async throws -> ChildProgram.Outcome {
        try await cloakroom(["health"] + arguments, directory: directory, environment: environment)
    }

    @Test("health reports a ready gateway as ready, and a stopped one as not ready")
    func readyAndGone() async throws {
        let address = try await GatewayProcess.running(GatewayYAML(upstream: "http://127.0.0.1:9")) { gateway in
            let address = String(gateway.admin.dropFirst("http://".count))
            // The address of the default configuration file.
            let directory = try TemporaryDirectory()
            var configuration = GatewayYAML(upstream: "http://127.0.0.1:9")
            configuration.adminAddress = address
            try directory.write(configuration.yaml, to: "cloakroom.yaml")
            try directory.write(configuration.yaml, to: "other.yaml")
            for (arguments, environment) in [
                (["--admin", address], [:]), ([], ["CLOAKROOM_ADMIN_ADDRESS": address]), ([], [:]),
                (["--admin", "http://\(address)/"], [:]), ([], ["CLOAKROOM_ADMIN_ADDRESS": "http://\(address)"]),
                (["other.yaml"], [:]), (["--config", "other.yaml"], [:]),
            ] as [([String], [String: String])] {
                // A busy machine may take longer than the 2 s that the command waits.
                try await eventually("the gateway is reported as ready") {
                    let response = try await health(
                        arguments, environment: environment, directory: directory.url)
                    return response.ending == ChildProgram.Ending(status: 0)
                        && response.output.contains("\"ready\":true")
                }
            }
            return address
        }
        let gone = try await health(["--admin", address])
        expect(gone.ending, equals: ChildProgram.Ending(status: 1))
        expect(gone.output.hasPrefix("\(address) does not respond: no process listens on "), "\(gone.output)")
    }

    @Test("A port of another service is not accepted as an admin listener")
    func somethingElse() async throws {
        let response = try await MockAPI.withServer(.withTwoUsers) { mock in
            try await health(["--admin", String(mock.baseURL.dropFirst("http://".count))])
        }
        expect(response.ending, equals: ChildProgram.Ending(status: 1))
        expect(response.output.contains("is not an admin listener"), "\(response.output)")
    }

    @Test(
        "Another program on the port is described without what it sent",
        arguments: [
            ("\u{1B}[31mhello\r\n\r\n", "the response is not HTTP (check the port"),
            ("", "the connection was closed without a response (check the port"),
            (
                "HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 100_000),
                "the response is too large (check the port"
            ),
        ])
    func otherProgram(bytes: String, reason: String) async throws {
        try await ScriptedServer.run([.bytesThenClose(bytes)]) { port, _ in
            let address = HostAndPort(host: "127.0.0.1", port: port)
            let response = await HealthCheck.ask(address)
            expect(!response.isReady)
            expect(response.text.hasPrefix("\(address) does not respond: \(reason)"), "\(response.text)")
        }
    }

    @Test("Errors of the system and the end of the time limit are described with what to check")
    func reasons() {
        let unreachable = IOError(errnoCode: EHOSTUNREACH, reason: "connect")
        let late = HTTPClientError.deadlineExceeded
        for (error, reason) in [
            (
                unreachable as any Error,
                "no route to host (check that the gateway runs, and that its address can be reached)"
            ),
            (
                late,
                "no complete response within 2 s (check that the gateway runs, the port, and firewalls between)"
            ),
        ] {
            let text = AdminExchange.failure(error, at: "192.0.2.1:1", limit: .seconds(2))
            expect(text, equals: "192.0.2.1:1 does not respond: \(reason)")
        }
    }

    @Test("The text of a response cannot control the terminal")
    func controlCharacters() async throws {
        let body = "{\"ready\":true,\"x\":\"\u{9B}31m\u{202E}\"}"
        try await ScriptedServer.run([.bytesThenClose(ScriptedServer.json(body))]) { port, _ in
            let response = await HealthCheck.ask(HostAndPort(host: "127.0.0.1", port: port))
            expect(response.isReady)
            expect(response.text, equals: "{\"ready\":true,\"x\":\"\u{FFFD}31m\u{FFFD}\"}")
        }
    }

    @Test("A redirect is not followed, even to an address that is ready")
    func redirected() async throws {
        try await ScriptedServer.run([ScriptedServer.response("200 OK", #"{"ready":true}"#)]) { port, server in
            let redirection = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
            server.handle("GET /ready", [.bytes(redirection)])
            let address = HostAndPort(host: "127.0.0.1", port: port)
            let response = await HealthCheck.ask(address)
            expect(!response.isReady)
            expect(response.text, equals: "\(address) is not an admin listener: 302 Found")
        }
    }

    @Test(
        "An invalid address is rejected with a hint",
        arguments: ["nonsense", "127.0.0.1:0", ":80", "", "http://", "ftp://127.0.0.1:9464"])
    func badAddress(_ address: String) async throws {
        let response = try await health(["--admin", address])
        expect(response.ending, equals: ChildProgram.Ending(status: 64))
        expect(response.errors.contains("write --admin 127.0.0.1:9464"), "\(response.errors)")
    }

    @Test("Without an admin listener, and with two addresses, the command names what to write")
    func otherAddress() async throws {
        let directory = try TemporaryDirectory()
        let yaml = GatewayYAML(upstream: "http://127.0.0.1:9").yaml
        try directory.write(yaml.replacing("admin: {", with: "admin: { enabled: false,"), to: "cloakroom.yaml")
        let disabled = try await health([], directory: directory.url)
        expect(disabled.ending, equals: ChildProgram.Ending(status: 64))
        expect(disabled.errors.contains("admin.enabled is false (write --control-socket PATH"), "\(disabled.errors)")
        let both = try await health(["--admin", "127.0.0.1:1", "--control-socket", "/a"])
        expect(both.ending, equals: ChildProgram.Ending(status: 64))
        expect(both.errors.contains("--admin conflicts with --control-socket"), "\(both.errors)")
        let twice = try await health(["cloakroom.yaml", "--config", "cloakroom.yaml"], directory: directory.url)
        expect(twice.errors.contains("--config conflicts with FILE (write one of them)"), "\(twice.errors)")
    }

    @Test("A named configuration that is missing or invalid is an error; without any, the command names what to write")
    func configuration() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("listeners: 1\n", to: "invalid.yaml")
        for (file, status, message) in [
            ("invalid.yaml", 1, "invalid.yaml:1:"), ("missing.yaml", 1, "missing.yaml"),
            ("canary", 64, "there is no such file (write the path of the configuration)"),
        ] as [(String, Int32, String)] {
            let response = try await health([file], directory: directory.url)
            expect(response.ending, equals: ChildProgram.Ending(status: status), "\(file)")
            expect(response.output == "" && response.errors.contains(message), "\(response.errors)")
            expect(!response.errors.contains("canary"))
        }
        // A developer may run a gateway, or have installed one.
        let none = try await health([], directory: directory.url)
        if none.ending.status != 0, !FileManager.default.fileExists(atPath: "/etc/cloakroom/cloakroom.yaml") {
            expect(none.errors.contains("write the FILE of the gateway, or --admin HOST:PORT"), "\(none.errors)")
        }
    }

    @Test("serve --log-level overrides the file, and an invalid level is rejected")
    func logLevel() async throws {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        let file = directory.path(of: "cloakroom.yaml")
        let wrong = try await cloakroom(["serve", "--config", file, "--log-level", "loud"])
        expect(wrong.ending, equals: ChildProgram.Ending(status: 1))
        expect(
            wrong.errors.hasPrefix("--set: logging.level: must be one of the allowed values, not \"loud\""),
            "\(wrong.errors)")
        let arguments = ["serve", "--config", file, "--set", "logging.level=critical", "--log-level", "notice"]
        try await ChildProgram.running(try Executables.cloakroom(), arguments) { program in
            // On a machine with a low descriptor limit a warning is logged before this line.
            let address = try await program.waits(for: "a line of that level") { program in
                program.logLines.first { $0.message?.hasPrefix("listening") == true }?.address
            }
            expect(!address.isEmpty, "\(program.output)")
        }
    }
}
