import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation

/// The option of commands that can print JSON.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON with stable keys, for scripts.")
    var json = false
}

extension CommandReport {
    /// Prints the report and ends the command with its exit code.
    func finish(asJSON: Bool = false) throws {
        try CommandOutput.print(asJSON ? json : text(inColor: CommandOutput.usesColor(STDOUT_FILENO)))
        if exitCode != 0 { throw ExitCode(exitCode) }
    }
}

/// Writes the output of commands.
enum CommandOutput {
    /// Writes to standard output.
    static func print(_ text: String) throws {
        try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }

    /// Whether severities are colored: on a terminal that can show colors, unless `NO_COLOR` is set and not empty
    /// (no-color.org).
    static func usesColor(
        _ descriptor: Int32, environment: [String: String] = ProcessInfo.processInfo.environment
    ) -> Bool {
        guard isatty(descriptor) == 1, let terminal = environment["TERM"], terminal != "dumb" else { return false }
        return environment["NO_COLOR"] ?? "" == ""
    }
}

/// Text of another program, made harmless for a terminal.
enum TerminalText {
    /// Replaces characters that are not visible.
    /// - Parameter limit: The maximum length in Unicode scalars; the length of a character is unbounded.
    static func clean(_ text: String, limit: Int = .max) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(limit) { result.append(scalar.isVisible ? scalar : "\u{FFFD}") }
        return String(result)
    }
}

/// Prints the error that ends a command to standard error.
enum CommandFailure {
    /// Runs a command and prints the error that it throws.
    /// - Parameter config: The configuration of the command. An error caused by one of its values is printed with the
    ///   line of that value.
    static func report(_ config: LoadedConfig? = nil, _ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            let isPlaced = (error as? any ConfigFindingError)?.finding != nil
            guard let config, isPlaced else { throw try exit("cloakroom: \(error)") }
            throw try exit(config.description(of: error))
        }
    }

    /// Writes problems to standard error, one per line.
    static func exit(_ problems: [ConfigDiagnostic]) throws -> ExitCode {
        let isColored = CommandOutput.usesColor(STDERR_FILENO)
        return try exit(problems.map { $0.line(inColor: isColored) }.joined(separator: "\n"))
    }

    /// Writes a line to standard error.
    static func exit(_ text: String, _ code: ExitCode = .failure) throws -> ExitCode {
        try FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
        return code
    }
}
