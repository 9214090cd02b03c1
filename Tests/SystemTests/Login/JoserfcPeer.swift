import Foundation
import TestSupport
import Testing

/// Programs with joserfc (PyPI), a library of other authors. Each peer has a key of its own, on P-256.
struct JoserfcPeer {
    private let python: URL
    private let folder: TemporaryDirectory
    private let script = Executables.packageDirectory
        .appending(path: "Tests/SystemTests/Login/joserfc_peer.py").path
    private static let environment = ["PYTHONDONTWRITEBYTECODE": "1"]

    init() async throws {
        python = try await Executables.python(with: "joserfc")
        folder = try TemporaryDirectory()
    }

    private func run(_ command: String, _ arguments: String...) async throws -> String {
        let outcome = try await ChildProgram.run(
            python, [script, command, folder.path(of: "key.pem")] + arguments, environment: Self.environment)
        try require(outcome.ending == ChildProgram.Ending(status: 0), "\(outcome.errors)")
        return outcome.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The thumbprint of the key (RFC 7638).
    func thumbprint() async throws -> String { try await run("thumbprint") }

    /// A proof of the key (RFC 9449 §4.2).
    /// - Parameters:
    ///   - token: The access token; `nil` for a token request.
    ///   - skew: The difference of the client's clock in seconds.
    func proof(
        _ method: String, _ url: String, _ token: String? = nil, skew: Int = 0, nonce: String = ""
    ) async throws -> String {
        try await run("proof", method, url, token ?? "", "\(skew)", nonce)
    }

    /// Runs an upstream that verifies the assertions of a gateway while `body` runs.
    /// - Parameter gateway: Scheme, host and port. The upstream requests its keys for each request.
    func verifying<R>(
        assertionsOf gateway: String, body: (_ upstream: String) async throws -> R
    ) async throws -> R {
        let arguments = [script, "upstream", gateway]
        return try await ChildProgram.running(python, arguments, environment: Self.environment) { program in
            let port = try await program.waits(for: "the upstream's port") { $0.lines.first.flatMap { Int($0) } }
            return try await body("http://127.0.0.1:\(port)")
        }
    }
}
