import Foundation
import TestSupport
import Testing

@testable import cloakroom

/// `cloakroom audit-hash`, and the first line of the log.
@Suite("Audit hashes and the first line", .serialized, .timeLimit(.minutes(3)))
struct AuditHashTests {
    private static let secret = "0123456789abcdef0123456789abcdef"

    private func hash(
        _ arguments: [String], input: String = "", secrets: String? = secret
    ) async throws -> ChildProgram.Outcome {
        let directory = try TemporaryDirectory()
        try directory.write(GatewayYAML(upstream: "http://127.0.0.1:9").yaml, to: "cloakroom.yaml")
        try directory.write(input, to: "input")
        let set = secrets.map { ["--set", "session.secrets=\($0)"] } ?? []
        let command =
            [try Executables.cloakroom().path, "audit-hash", "--config", directory.path(of: "cloakroom.yaml")] + set
            + arguments
        let text = command.map { "'\($0)'" }.joined(separator: " ") + " < '\(directory.path(of: "input"))'"
        return try await ChildProgram.run(URL(filePath: "/bin/sh"), ["-c", text])
    }

    @Test("The hash is the user of the audit lines, whatever the spelling, from standard input and from an argument")
    func isUserOfAuditLines() async throws {
        let user = try await GatewayProcess.running(set: ["session.secrets=\(Self.secret)"]) { gateway, _ in
            _ = try await gateway.client.signIn()
            return try await gateway.program.waits(for: "the audit line") { program in
                program.lines.lazy.compactMap {
                    try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
                }.first { $0["event"] as? String == "sign_in" }?["user"] as? String
            }
        }
        for (arguments, input) in [
            ([], "jo@example.com\n"), ([], "Jo@Example.com"), (["--user", "jo@example.com"], ""),
        ] as [([String], String)] {
            let result = try await hash(arguments, input: input)
            expect(result.output, equals: user + "\n", "\(result.errors)")
            expect(result.ending, equals: ChildProgram.Ending(status: 0))
        }
        let other = try await hash([], input: "mia@example.com\n")
        expect(other.output != user + "\n")
        let older = try await hash(
            [], input: "jo@example.com\n", secrets: "fedcba9876543210fedcba9876543210,\(Self.secret)")
        expect(older.output.split(separator: "\n").map(String.init).last, equals: user)
    }

    @Test("Without secrets or without a user the command reports what to do")
    func failures() async throws {
        let keyless = try await hash([], input: "jo@example.com\n", secrets: nil)
        expect(keyless.ending != ChildProgram.Ending(status: 0))
        expect(keyless.errors.contains("set session.secrets"))
        let nobody = try await hash([])
        expect(nobody.ending != ChildProgram.Ending(status: 0))
        expect(nobody.errors.contains("standard input"))
    }

    @Test("The first line names version, file, hash, store, listeners and limits, with numbers as numbers")
    func firstLine() async throws {
        let lines = try await GatewayProcess.running { gateway, _ in gateway.program.lines }
        let first = try require(lines.first)
        let line = try require(JSONSerialization.jsonObject(with: Data(first.utf8)) as? [String: Any])
        expect(line["event"] as? String, equals: "start")
        expect(line["version"] as? String, equals: Cloakroom.version)
        expect((line["file"] as? String)?.hasSuffix("cloakroom.yaml"), equals: true)
        expect((line["config"] as? String)?.count, equals: 12)
        expect(line["store"] as? String, equals: "memory")
        let listeners = try require(line["listeners"] as? [[String: Any]])
        expect(listeners.first?["address"] as? String, equals: "127.0.0.1:0")
        expect(listeners.first?["tls"] as? Bool, equals: false)
        let limits = try require(line["limits"] as? [String: Any])
        expect(limits["head"] as? Int, equals: 16_384)
        expect(!first.contains("demo-api-token"))
    }
}
