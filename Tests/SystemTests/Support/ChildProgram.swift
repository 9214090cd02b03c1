import Foundation
import Glibc
import TestSupport

/// A child process. Its output goes into files, so that it never blocks on a full pipe. It is killed when the test that
/// started it ends, for any reason.
final class ChildProgram: Sendable {
    typealias Ending = ChildProcess.Ending
    typealias Outcome = (ending: Ending, output: String, errors: String)

    private let process: ChildProcess
    private let arguments: [String]
    private let files: TemporaryDirectory

    private init(
        _ executable: URL, _ arguments: [String], directory: URL?, environment: [String: String], input: String?
    ) throws {
        files = try TemporaryDirectory()
        self.arguments = arguments
        if let input { try files.write(input, to: "input") }
        // Only `PATH` is inherited: proxies and other settings of the developer do not apply.
        process = try ChildProcess(
            executable.path, arguments, directory: directory?.path,
            environment: environment.merging(["PATH": Executables.searchPath]) { given, _ in given },
            input: input == nil ? .null : .file(files.path(of: "input")), output: .file(files.path(of: "output")),
            errors: .file(files.path(of: "errors")))
    }

    /// Runs a program while `body` runs.
    /// - Parameter input: The standard input; by default it is empty.
    static func running<R>(
        _ executable: URL, _ arguments: [String], directory: URL? = nil, environment: [String: String] = [:],
        input: String? = nil, body: (ChildProgram) async throws -> R
    ) async throws -> R {
        let program = try ChildProgram(
            executable, arguments, directory: directory, environment: environment, input: input)
        return try await stopping {
            await program.kill()
        } after: {
            try await body(program)
        }
    }

    /// Runs a program until it exits.
    static func run(
        _ executable: URL, _ arguments: [String], directory: URL? = nil, environment: [String: String] = [:],
        input: String? = nil
    ) async throws -> Outcome {
        try await running(
            executable, arguments, directory: directory, environment: environment, input: input
        ) { program in
            let ending = try await program.ending()
            return (ending, program.output, program.errors)
        }
    }

    /// The standard output so far.
    var output: String { files.text(of: "output") }

    /// The standard error output so far.
    var errors: String { files.text(of: "errors") }

    /// The complete lines of the standard output so far.
    var lines: [Substring] {
        let output = self.output
        guard let end = output.lastIndex(of: "\n") else { return [] }
        return output[..<end].split(separator: "\n")
    }

    var processIdentifier: Int32 { process.processIdentifier }

    /// The arguments as every user of the machine can read them, one a line.
    var commandLine: String {
        let data = FileManager.default.contents(atPath: "/proc/\(process.processIdentifier)/cmdline") ?? Data()
        return String(decoding: data, as: UTF8.self).replacing("\0", with: "\n")
    }

    var isRunning: Bool { process.isRunning }

    func send(_ signal: Int32) { process.signal(signal) }

    /// Waits until the process has exited.
    func ending(within limit: Duration = .seconds(40)) async throws -> Ending {
        try await eventually("\(arguments) ends", within: limit) { self.process.ending }
    }

    /// Waits for something in its output.
    func waits<R>(for what: String, _ find: (ChildProgram) throws -> R?) async throws -> R {
        try await eventually(what) {
            // The order matters: output written before the exit is complete once the process has ended.
            let isRunning = self.isRunning
            if let found = try find(self) { return found }
            guard isRunning else { throw ExitedEarly(what: what, said: self.output + self.errors) }
            return nil
        }
    }

    /// Kills the process if it is running, and waits until it has exited.
    private func kill() async {
        send(SIGKILL)
        await process.ends()
    }

    struct ExitedEarly: Error, CustomStringConvertible {
        let what: String
        let said: String

        var description: String { "the process exited before: \(what)\n\(said)" }
    }
}

/// Runs the gateway's executable until it exits.
func cloakroom(
    _ arguments: [String], directory: URL? = nil, environment: [String: String] = [:], input: String? = nil
) async throws -> ChildProgram.Outcome {
    try await ChildProgram.run(
        try Executables.cloakroom(), arguments, directory: directory, environment: environment, input: input)
}
