import Foundation
import Glibc
import MockAPI
import Testing

/// What the system says of a running gateway. Run as root the gateway gets a user of its own: what belongs to root is told
/// apart only then.
@Suite("Core dumps of a running gateway", .serialized, .timeLimit(.minutes(3)))
struct CoreDumpTests {
    private static let user: uid_t = 65_534

    /// The limit of a core dump's size, and who owns the process's memory in `/proc`, once it serves.
    private func look(_ command: [String], waitingFor text: String) async throws -> (limit: String, owner: UInt32) {
        var executable = try Executables.cloakroom()
        var arguments = command
        if getuid() == 0 {
            arguments =
                ["--reuid", "\(Self.user)", "--regid", "\(Self.user)", "--clear-groups", executable.path] + command
            executable = try Executables.onPath("setpriv", package: "util-linux")
        }
        return try await ChildProgram.running(executable, arguments) { program in
            _ = try await program.waits(for: text) { $0.output.contains(text) ? true : nil }
            let directory = "/proc/\(program.processIdentifier)"
            let limits = try String(contentsOfFile: directory + "/limits", encoding: .utf8)
            let line = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
            var status = stat()
            #expect(stat(directory + "/environ", &status) == 0)
            return (line.split(separator: " ").dropFirst(4).joined(separator: " "), status.st_uid)
        }
    }

    private func serve(_ flags: [String]) async throws -> (limit: String, owner: UInt32) {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        return try await look(
            ["serve", "--config", directory.path(of: "cloakroom.yaml")] + flags, waitingFor: "listening for operators")
    }

    @Test("Rule 50: serve leaves no core dump, and its memory cannot be read by other processes of its user")
    func serve() async throws {
        let found = try await serve([])
        #expect(found.limit == "0 0 bytes")
        #expect(found.owner == 0)
    }

    @Test("Rule 50: neither does demo")
    func demo() async throws {
        let found = try await look(
            ["demo", "--port", "0", "--clear-port", "0", "--admin-port", "0", "--api-port", "0"], waitingFor: "curl")
        #expect(found.limit == "0 0 bytes")
        #expect(found.owner == 0)
    }

    @Test("For debugging serve can be told to allow them")
    func allowed() async throws {
        let found = try await serve(["--allow-core-dumps"])
        #expect(found.owner == (getuid() == 0 ? Self.user : getuid()))
    }

    @Test("Rule 50: the systemd unit sets the limit too")
    func unit() throws {
        let unit = try String(
            contentsOf: Executables.packageDirectory.appending(path: "deploy/systemd/cloakroom.service"),
            encoding: .utf8)
        #expect(unit.split(separator: "\n").contains("LimitCORE=0"))
    }
}
