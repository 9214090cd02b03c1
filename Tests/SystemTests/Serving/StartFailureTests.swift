import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

@testable import cloakroom_demo

/// A gateway that cannot start prints one line for each cause, with the action that its operator can take.
@Suite("Failures at the start", .serialized, .timeLimit(.minutes(3)))
struct StartFailureTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// Starts a gateway that has to fail.
    /// - Parameters:
    ///   - launcher: The command that starts the gateway, if it is not started directly.
    ///   - lineCount: The number of causes.
    /// - Returns: The error output.
    private func failure(
        of configuration: GatewayYAML, through launcher: [String] = [], lineCount: Int = 1,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        try directory.write(configuration.yaml, to: "gateway.yaml")
        let program = try Executables.cloakroom().path
        let command = launcher + [program, "serve", "--config", directory.path(of: "gateway.yaml")]
        let result = try await ChildProgram.run(URL(fileURLWithPath: command[0]), Array(command.dropFirst()))
        #expect(result.ending == ChildProgram.Ending(status: 1), sourceLocation: sourceLocation)
        let lines = result.errors.split(separator: "\n")
        #expect(lines.count == lineCount, "\(result.errors)", sourceLocation: sourceLocation)
        // Words of libraries that an operator cannot act on.
        for word in ["CancellationError", "bind(", "descriptor:", "errno", "cut off", "Already closed", "IOError"] {
            let text = result.errors + result.output
            #expect(!text.contains(word), "\(text)", sourceLocation: sourceLocation)
        }
        return result.errors
    }

    @Test("Each port in use is one line, with the position in the configuration and what to do")
    func ports() async throws {
        try await ScriptedServer.run { port, _ in
            var taken = GatewayYAML(upstream: "http://127.0.0.1:9000")
            taken.address = "127.0.0.1:\(port)"
            try await expect(
                failure(of: taken),
                equals: directory.path(of: "gateway.yaml")
                    + ":2:14: listeners.0.address: address already in use: another process listens on 127.0.0.1:\(port)"
                    + " (stop that process, or choose another port; serve --take-over replaces a gateway that runs there)\n"
            )

            taken.adminAddress = "127.0.0.1:\(port)"
            taken.address = "127.0.0.1:0"
            let admin = try await failure(of: taken)
            expect(admin.contains("gateway.yaml:4:19: admin.address: address already in use"), "\(admin)")

            // Another address with the same port: two causes, two lines.
            try await ScriptedServer.run { other, _ in
                taken.address = "127.0.0.1:\(other)"
                _ = try await failure(of: taken, lineCount: 2)
            }
        }
    }

    @Test("A port that requires a permission is reported with the way to grant it")
    func permission() async throws {
        let setpriv = try Executables.onPath("setpriv", package: "util-linux")
        var low = GatewayYAML(upstream: "http://127.0.0.1:9000")
        low.address = "127.0.0.1:443"
        // Drops the capability that root would have.
        let launcher = [
            setpriv.path, "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service",
        ]
        let errors = try await failure(of: low, through: launcher)
        expect(errors.contains("gateway.yaml:2:14: listeners.0.address: no permission to listen on port 443"))
        expect(errors.contains("CAP_NET_BIND_SERVICE"), "\(errors)")
    }

    @Test("An address that this machine does not have and an unknown host name are reported as such")
    func addresses() async throws {
        var strange = GatewayYAML(upstream: "http://127.0.0.1:9000")
        strange.adminAddress = "192.0.2.1:9999"
        let errors = try await failure(of: strange)
        expect(errors.contains("admin.address: this machine has no address 192.0.2.1 (write one"), "\(errors)")
    }

    @Test("A key that does not match its certificate is reported with both files and its line, also by check-config")
    func otherKey() async throws {
        let (first, second) = (try DemoCertificate(), try DemoCertificate())
        defer {
            first.remove()
            second.remove()
        }
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.certificate = (first.certificateFile, second.keyFile)
        let errors = try await failure(of: configuration)
        expect(errors.contains("gateway.yaml:7:16: listeners.1.tls.keyFile: "), "\(errors)")
        expect(errors.contains(first.certificateFile) && errors.contains(second.keyFile))
        let check = try await cloakroom(["check-config", "--config", directory.path(of: "gateway.yaml")])
        expect(check.ending.status, equals: 1)
        expect(check.output.contains(errors), "\(check.output)")
    }

    @Test("Warnings are logged at start and reload, and check-config prints the same lines")
    func warnings() async throws {
        try directory.write("some-token", to: "token")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory.path(of: "token"))
        var configuration = GatewayYAML(upstream: "http://127.0.0.1:9000")
        configuration.apiTokenFile = directory.path(of: "token")
        try directory.write(configuration.yaml, to: "gateway.yaml")
        let arguments = ["--config", directory.path(of: "gateway.yaml")]
        let check = try await cloakroom(["check-config"] + arguments)
        expect(check.ending.status, equals: 0)
        expect(check.output.contains("upstreams.api.apiToken.valueFile"), "\(check.output)")
        expect(check.output.contains("1 warning)"), "\(check.output)")
        try await expect(cloakroom(["check-config", "--strict"] + arguments).ending.status, equals: 1)
        let line = check.output.split(separator: "\n").first.map(String.init) ?? ""
        try await ChildProgram.running(try Executables.cloakroom(), ["serve"] + arguments) { program in
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
