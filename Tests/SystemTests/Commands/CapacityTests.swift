import Foundation
import TestSupport
import Testing

/// `cloakroom capacity`.
@Suite("The capacity command", .timeLimit(.minutes(1)))
struct CapacityTests {
    private func capacity(
        _ arguments: [String]
    ) async throws -> (ending: ChildProgram.Ending, output: String, errors: String) {
        try await ChildProgram.run(Executables.cloakroom(), ["capacity"] + arguments)
    }

    private static let demand = ["--users", "1000000", "--requests-per-second", "10000"]

    @Test("prints tables, and JSON with the same figures")
    func output() async throws {
        let text = try await capacity(Self.demand + ["--gateways", "3", "--shards", "3"])
        #expect(text.ending == ChildProgram.Ending(status: 0), "\(text.errors)")
        #expect(text.output.hasPrefix("operations per second\n"))
        #expect(text.output.contains("each gateway of 3") && text.output.contains("each shard of 3"))
        let json = try await capacity(Self.demand + ["--gateways", "3", "--shards", "3", "--json"])
        struct Document: Decodable {
            struct Need: Decodable { var cores: Double }
            var shard: Need
        }
        let document = try JSONDecoder().decode(Document.self, from: Data(json.output.utf8))
        #expect(text.output.contains(String(format: "%.2f", document.shard.cores)))
    }

    @Test("takes the figures of a file, and rejects other files")
    func figures() async throws {
        let own = Executables.packageDirectory.appending(path: "Benchmarks/capacity.json").path
        let given = try await capacity(Self.demand + ["--figures", own])
        let plain = try await capacity(Self.demand)
        #expect(given.output == plain.output)
        #expect(!given.output.isEmpty)
        let directory = try TemporaryDirectory()
        try directory.write("{}", to: "figures.json")
        let wrong = try await capacity(Self.demand + ["--figures", directory.path(of: "figures.json")])
        #expect(wrong.ending == ChildProgram.Ending(status: 64))
        #expect(wrong.errors.contains("write it with Benchmarks/capacity.py"))
        let missing = try await capacity(Self.demand + ["--figures", directory.path(of: "none.json")])
        #expect(missing.ending == ChildProgram.Ending(status: 64))
        #expect(missing.errors.contains("cannot be read"))
    }

    @Test(
        "reports what is wrong with an option, and what to write",
        arguments: [
            (
                ["--users", "0", "--requests-per-second", "1"],
                "--users must be from 1 to 1000000000 (write --users 100000)"
            ),
            (["--users", "1", "--requests-per-second", "inf"], "write --requests-per-second 5000"),
            (demand + ["--gateways", "0"], "write --gateways 2"),
            (demand + ["--shards", "129"], "from 1 to 128 (write --shards 3)"),
            (demand + ["--cache-size", "0"], "write --cache-size 100000"),
            (demand + ["--session-length", "8"], "not “8” (write --session-length 8h)"),
            (demand + ["--idle-timeout", "31d"], "from 1s to 30d"),
            (demand + ["--token-lifetime", "1ms"], "write --token-lifetime 5m"),
            (["--users", "1"], "--requests-per-second"),
        ] as [([String], String)])
    func failures(arguments: [String], problem: String) async throws {
        let result = try await capacity(arguments)
        #expect(result.ending == ChildProgram.Ending(status: 64))
        #expect(result.output == "")
        #expect(result.errors.contains(problem), "\(result.errors)")
    }
}
