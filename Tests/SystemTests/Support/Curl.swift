import Foundation
import TestSupport

/// The real curl, with a temporary folder for its cookie jars.
struct Curl: Sendable {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
    }

    /// `curl -sk -i …`
    func callAsFunction(_ arguments: String...) async throws -> TestResponse {
        let result = try await run(["-sk", "-i"] + arguments)
        guard result.ending.status == 0 else {
            throw Failed(arguments: arguments, status: result.ending.status, said: result.errors)
        }
        return try TestResponse(printed: result.output)
    }

    /// `curl …`, with any exit status.
    func run(
        _ arguments: [String]
    ) async throws -> ChildProgram.Outcome {
        try await ChildProgram.run(
            try Executables.onPath("curl", package: "curl"), ["--max-time", "60"] + arguments, directory: directory.url)
    }

    struct Failed: Error {
        let arguments: [String]
        let status: Int32
        let said: String
    }
}
