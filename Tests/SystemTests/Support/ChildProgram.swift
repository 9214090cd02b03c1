import Foundation
import Glibc
import Synchronization
import TestSupport

/// A child process. Its output goes into files, so that it never blocks on a full pipe. It is killed when the test that
/// started it ends, for any reason.
final class ChildProgram: Sendable {
    /// How the process ended.
    struct Ending: Sendable, Equatable {
        /// The exit status, or the number of the signal.
        var status: Int32
        var wasKilled = false
    }

    private struct State {
        var ending: Ending?
        var waiting: [CheckedContinuation<Ending, Never>] = []
    }

    private let process: Process
    private let files: TemporaryDirectory
    private let state: Mutex<State>

    private init(
        _ executable: URL, _ arguments: [String], directory: URL?, environment: [String: String], input: String?
    ) throws {
        files = try TemporaryDirectory()
        state = Mutex(State())
        process = Process()
        process.executableURL = executable
        process.arguments = arguments
        if let directory { process.currentDirectoryURL = directory }
        // Only `PATH` is inherited: proxies and other settings of the developer do not apply.
        process.environment = environment.merging(["PATH": Executables.searchPath]) { given, _ in given }
        process.standardInput = FileHandle.nullDevice
        if let input {
            try files.write(input, to: "input")
            process.standardInput = try FileHandle(forReadingFrom: files.url.appending(path: "input"))
        }
        try files.write("", to: "output")
        try files.write("", to: "errors")
        process.standardOutput = try FileHandle(forWritingTo: files.url.appending(path: "output"))
        process.standardError = try FileHandle(forWritingTo: files.url.appending(path: "errors"))
        process.terminationHandler = { [weak self] process in
            let wasKilled = process.terminationReason == .uncaughtSignal
            self?.ended(Ending(status: process.terminationStatus, wasKilled: wasKilled))
        }
        try process.run()
    }

    /// Runs a program while `body` runs.
    /// - Parameter input: The standard input; by default it is empty.
    static func running<R>(
        _ executable: URL, _ arguments: [String], directory: URL? = nil, environment: [String: String] = [:],
        input: String? = nil, body: (ChildProgram) async throws -> R
    ) async throws -> R {
        let program = try ChildProgram(
            executable, arguments, directory: directory, environment: environment, input: input)
        do {
            let result = try await body(program)
            await program.kill()
            return result
        } catch {
            await program.kill()
            throw error
        }
    }

    /// Runs a program until it exits.
    static func run(
        _ executable: URL, _ arguments: [String], directory: URL? = nil, environment: [String: String] = [:],
        input: String? = nil
    ) async throws -> (ending: Ending, output: String, errors: String) {
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

    var isRunning: Bool { state.withLock { $0.ending == nil } }

    func send(_ signal: Int32) {
        if isRunning { _ = Glibc.kill(process.processIdentifier, signal) }
    }

    /// Waits until the process has exited.
    func ending(within limit: Duration = .seconds(40)) async throws -> Ending {
        try await eventually("\(process.arguments ?? []) ends", within: limit) { self.state.withLock { $0.ending } }
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
        _ = await withCheckedContinuation { continuation in
            let ending = state.withLock { state in
                if state.ending == nil { state.waiting.append(continuation) }
                return state.ending
            }
            if let ending { continuation.resume(returning: ending) }
        }
    }

    private func ended(_ ending: Ending) {
        let waiting = state.withLock { state in
            state.ending = ending
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume(returning: ending) }
    }

    struct ExitedEarly: Error, CustomStringConvertible {
        let what: String
        let said: String

        var description: String { "the process exited before: \(what)\n\(said)" }
    }
}
