import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// The core dump settings of a running gateway as the kernel reports them. If the tests run as root, the gateway runs as
/// another user: root owns the files in `/proc` of a process that is not dumpable, and of every process of root.
@Suite("Core dumps of a running gateway", .serialized, .timeLimit(.minutes(3)))
struct CoreDumpTests {
    private static let user: uid_t = 65_534

    /// The core dump size limit, and the owner of the process's memory in `/proc`, once the gateway serves.
    private func look(
        _ program: URL, _ command: [String], waitingFor text: String
    ) async throws -> (limit: String, owner: UInt32) {
        var executable = program
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
            let line = try require(limits.split(separator: "\n").first { $0.hasPrefix("Max core file size") })
            let attributes = try FileManager.default.attributesOfItem(atPath: directory + "/environ")
            let owner = try require(attributes[.ownerAccountID] as? NSNumber)
            return (line.split(separator: " ").dropFirst(4).joined(separator: " "), owner.uint32Value)
        }
    }

    private func serve(_ flags: [String]) async throws -> (limit: String, owner: UInt32) {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        return try await look(
            try Executables.cloakroom(), ["serve", "--config", directory.path(of: "cloakroom.yaml")] + flags,
            waitingFor: "admin listener started")
    }

    @Test("Rule 50: serve writes no core dump, and other processes of its user cannot read its memory")
    func serve() async throws {
        let found = try await serve([])
        expect(found.limit, equals: "0 0 bytes")
        expect(found.owner, equals: 0)
    }

    @Test("Rule 50: the demo's gateway writes no core dump, and other processes of its user cannot read its memory")
    func demo() async throws {
        let found = try await look(
            try Executables.demo(), RunningDemo.onFreePorts, waitingFor: "curl")
        expect(found.limit, equals: "0 0 bytes")
        expect(found.owner, equals: 0)
    }

    @Test("An option of serve allows core dumps for debugging")
    func allowed() async throws {
        let found = try await serve(["--allow-core-dumps"])
        expect(found.owner, equals: getuid() == 0 ? Self.user : getuid())
    }

    @Test("Rule 50: the systemd unit sets the limit too")
    func unit() throws {
        let unit = try String(
            contentsOf: Executables.packageDirectory.appending(path: "deploy/systemd/cloakroom.service"),
            encoding: .utf8)
        expect(unit.split(separator: "\n").contains("LimitCORE=0"))
    }
}
