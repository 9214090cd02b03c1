import Foundation
import Glibc
import MockAPI
import TestSupport
import Testing

/// A second `cloakroom serve` on the addresses of a running one.
@Suite("Taking over", .serialized, .timeLimit(.minutes(3)))
struct TakeOverTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// The arguments that serve on the address of another gateway.
    private func arguments(like first: GatewayProcess, adminAddress: String = "127.0.0.1:0") throws -> [String] {
        var same = GatewayYAML(upstream: "http://127.0.0.1:9")
        same.address = "127.0.0.1:\(first.clear.port)"
        same.adminAddress = adminAddress
        try directory.write(same.yaml, to: "second.yaml")
        return ["serve", "--config", directory.path(of: "second.yaml")]
    }

    @Test("Rule 47: a second gateway on the same port starts only with --take-over")
    func second() async throws {
        try await GatewayProcess.running { first, _ in
            let arguments = try arguments(like: first)
            let rejected = try await cloakroom(arguments)
            expect(rejected.ending, equals: ChildProgram.Ending(status: 1))
            expect(rejected.errors.contains("--take-over"), "\(rejected.errors)")
            // All requests still reach the first gateway, whose upstream responds.
            for _ in 0..<20 { try await expect(WebClient(first.clear).get("/episodes").status, equals: 200) }

            try await ChildProgram.running(try Executables.cloakroom(), arguments + ["--take-over"]) { second in
                _ = try await second.waits(for: "the second listens") { program in
                    program.logLines.contains { $0.message == "listening" } ? true : nil
                }
                expect(second.output.contains("address is shared with another process"), "\(second.output)")
                first.program.send(SIGTERM)
                try await expect(first.program.ending().status, equals: 0)
                // The upstream of the second gateway does not exist: it returns a local response.
                try await expect(WebClient(first.clear).get("/episodes").status, equals: 502)
            }
        }
    }
}
