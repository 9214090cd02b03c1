import Foundation
import NIOSSL
import TestSupport

/// A real headless Chromium, driven by Selenium: its profile is removed after the last step.
struct BrowserSession {
    /// Whether every certificate is accepted, as needed for the demo.
    private let acceptsAnyCertificate: Bool
    /// The certificate file of a server that may bind sessions to keys of the browser; `nil` for none.
    private let bindsSessionsOf: String?
    /// The time limit of one step in seconds, loading and waiting included.
    private let stepLimit = 40
    /// The time limit of all steps in seconds.
    private let wholeLimit: Int

    init(acceptsAnyCertificate: Bool = false, bindsSessionsOf: String? = nil, wholeLimit: Int = 120) {
        self.acceptsAnyCertificate = acceptsAnyCertificate
        self.bindsSessionsOf = bindsSessionsOf
        self.wholeLimit = wholeLimit
    }

    /// Runs the steps in order.
    /// - Throws: ``Failed`` with the first step that fails.
    func run(_ steps: [BrowserStep]) async throws -> BrowserRun {
        let directory = try TemporaryDirectory()
        let certificate = try bindsSessionsOf.flatMap { try NIOSSLCertificate.fromPEMFile($0).first }
        let key = try certificate?.extractPublicKey().toSPKIBytes()
        let script = Script(
            browser: try Executables.onPath("chromium", package: "chromium").path,
            driver: try Executables.onPath("chromedriver", package: "chromium-driver").path,
            profile: directory.path(of: "profile"), acceptsAnyCertificate: acceptsAnyCertificate,
            bindsSessionsOf: key.map { Data($0).base64EncodedString() }, limit: stepLimit, wholeLimit: wholeLimit,
            steps: steps)
        try directory.write(String(decoding: try JSONEncoder().encode(script), as: UTF8.self), to: "script.json")
        let driver = Executables.packageDirectory.appending(path: "Tests/SystemTests/Support/browser.py").path
        let arguments = [driver, directory.path(of: "script.json")]
        // The script ends by its own time limit; killing it would leave the browser running.
        let limit = Duration.seconds(wholeLimit + 30)
        return try await ChildProgram.running(try await Executables.python(with: "selenium"), arguments) { program in
            let ending = try await program.ending(within: limit)
            guard ending == .init(status: 0) else { throw Failed(description: program.output + program.errors) }
            let output = Data(program.output.utf8)
            if let error = try JSONDecoder().decode(Outcome.self, from: output).error {
                throw Failed(description: error)
            }
            return try JSONDecoder().decode(BrowserRun.self, from: output)
        }
    }

    private struct Script: Encodable {
        let browser: String
        let driver: String
        let profile: String
        let acceptsAnyCertificate: Bool
        /// The public key of the server in DER (SubjectPublicKeyInfo) and Base64.
        let bindsSessionsOf: String?
        let limit: Int
        let wholeLimit: Int
        let steps: [BrowserStep]
    }

    private struct Outcome: Decodable {
        let error: String?
    }

    struct Failed: Error, CustomStringConvertible {
        let description: String
    }
}
