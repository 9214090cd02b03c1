import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

@testable import cloakroom

/// A gateway that cannot start prints one line for each cause, with the action that its operator can take.
@Suite("Failures at the start", .serialized, .timeLimit(.minutes(3)))
struct StartFailureTests {
    private func serve(
        _ configuration: GatewayYAML, _ more: [String] = [], directory: TemporaryDirectory
    ) async throws -> (ending: ChildProgram.Ending, output: String, errors: String) {
        try directory.write(configuration.yaml, to: "gateway.yaml")
        return try await ChildProgram.run(
            try Executables.cloakroom(), ["serve", "--config", directory.path(of: "gateway.yaml")] + more)
    }

    /// Words of libraries that an operator cannot act on.
    private func expectPlain(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
        for word in ["CancellationError", "bind(", "descriptor:", "errno", "cut off", "Already closed", "IOError"] {
            #expect(!text.contains(word), "\(text)", sourceLocation: sourceLocation)
        }
    }

    @Test("Each port in use is one line, with the position in the configuration and what to do")
    func ports() async throws {
        try await ScriptedUpstream.running { _, port in
            let directory = try TemporaryDirectory()
            var taken = GatewayYAML(upstream: "http://127.0.0.1:9000")
            taken.address = "127.0.0.1:\(port)"
            let listener = try await serve(taken, directory: directory)
            #expect(listener.ending == ChildProgram.Ending(status: 1))
            #expect(
                listener.errors == directory.path(of: "gateway.yaml")
                    + ":2:14: listeners.0.address: address already in use: another process listens on 127.0.0.1:\(port)"
                    + " (stop that process, or choose another port; serve --take-over replaces a gateway that runs there)\n"
            )
            expectPlain(listener.errors + listener.output)

            taken.adminAddress = "127.0.0.1:\(port)"
            taken.address = "127.0.0.1:0"
            let admin = try await serve(taken, directory: directory)
            #expect(admin.ending == ChildProgram.Ending(status: 1))
            #expect(admin.errors.split(separator: "\n").count == 1, "\(admin.errors)")
            #expect(
                admin.errors.contains("gateway.yaml:4:19: admin.address: address already in use"), "\(admin.errors)")
            expectPlain(admin.errors + admin.output)

            // Another address with the same port: two causes, two lines.
            try await ScriptedUpstream.running { _, other in
                taken.address = "127.0.0.1:\(other)"
                let both = try await serve(taken, directory: directory)
                #expect(both.ending == ChildProgram.Ending(status: 1))
                #expect(both.errors.split(separator: "\n").count == 2, "\(both.errors)")
                expectPlain(both.errors + both.output)
            }
        }
    }

    @Test("A port that requires a permission is reported with the way to grant it")
    func permission() async throws {
        let setpriv = try Executables.onPath("setpriv", package: "util-linux")
        let directory = try TemporaryDirectory()
        var low = GatewayYAML(upstream: "http://127.0.0.1:9000")
        low.address = "127.0.0.1:443"
        try directory.write(low.yaml, to: "gateway.yaml")
        // Drops the capability that root would have.
        let result = try await ChildProgram.run(
            setpriv,
            [
                "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service",
                try Executables.cloakroom().path,
                "serve", "--config", directory.path(of: "gateway.yaml"),
            ])
        #expect(result.ending == ChildProgram.Ending(status: 1))
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count == 1, "\(result.errors)")
        #expect(result.errors.contains("gateway.yaml:2:14: listeners.0.address: no permission to listen on port 443"))
        #expect(result.errors.contains("CAP_NET_BIND_SERVICE"), "\(result.errors)")
        expectPlain(result.errors + result.output)
    }

    @Test("An address that this machine does not have and an unknown host name are reported as such")
    func addresses() async throws {
        let directory = try TemporaryDirectory()
        var strange = GatewayYAML(upstream: "http://127.0.0.1:9000")
        strange.adminAddress = "192.0.2.1:9999"
        let result = try await serve(strange, directory: directory)
        #expect(result.ending == ChildProgram.Ending(status: 1))
        #expect(
            result.errors.contains("admin.address: this machine has no address 192.0.2.1 (write one"),
            "\(result.errors)")
        expectPlain(result.errors + result.output)
    }

    @Test("A key that does not match its certificate is reported with both files and its line, also by check-config")
    func otherKey() async throws {
        let (first, second) = (try DemoCertificate(), try DemoCertificate())
        defer {
            first.remove()
            second.remove()
        }
        let directory = try TemporaryDirectory()
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.certificate = (first.certificateFile, second.keyFile)
        let result = try await serve(configuration, directory: directory)
        #expect(result.ending == ChildProgram.Ending(status: 1))
        #expect(result.errors.split(separator: "\n").count == 1, "\(result.errors)")
        #expect(result.errors.contains("gateway.yaml:7:16: listeners.1.tls.keyFile: "), "\(result.errors)")
        #expect(result.errors.contains(first.certificateFile) && result.errors.contains(second.keyFile))
        expectPlain(result.errors + result.output)
        let check = try await ChildProgram.run(
            try Executables.cloakroom(), ["check-config", "--config", directory.path(of: "gateway.yaml")])
        #expect(check.ending.status == 1)
        #expect(check.output.contains(result.errors), "\(check.output)")
    }

    @Test("Warnings are logged at start and reload, and check-config prints the same lines")
    func warnings() async throws {
        let directory = try TemporaryDirectory()
        try directory.write("some-token", to: "token")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory.path(of: "token"))
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.apiTokenFile = directory.path(of: "token")
        try directory.write(configuration.yaml, to: "gateway.yaml")
        let program = try Executables.cloakroom()
        let arguments = ["--config", directory.path(of: "gateway.yaml")]
        let check = try await ChildProgram.run(program, ["check-config"] + arguments)
        #expect(check.ending.status == 0)
        #expect(check.output.contains("upstreams.api.apiToken.valueFile"), "\(check.output)")
        #expect(check.output.contains("1 warning)"), "\(check.output)")
        #expect(try await ChildProgram.run(program, ["check-config", "--strict"] + arguments).ending.status == 1)
        let line = check.output.split(separator: "\n").first.map(String.init) ?? ""
        try await ChildProgram.running(program, ["serve"] + arguments) { program in
            func count() -> Int {
                program.output.replacing("\\/", with: "/").components(separatedBy: line.replacing("\"", with: "\\\""))
                    .count - 1
            }
            _ = try await program.waits(for: "the warning") { _ in count() == 1 ? true : nil }
            _ = try await program.waits(for: "listening") { $0.output.contains("\"listening\"") ? true : nil }
            program.send(SIGHUP)
            _ = try await program.waits(for: "the warning again") { _ in count() == 2 ? true : nil }
        }
    }
}
