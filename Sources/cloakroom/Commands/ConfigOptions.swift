import ArgumentParser
import CloakroomConfig
import Foundation

/// The options for the configuration sources of a command.
struct ConfigOptions: ParsableArguments {
    @Option(name: .long, help: "The configuration file (YAML).")
    var config: String

    @Option(
        name: .long,
        help: ArgumentHelp(
            "A value that overrides the environment and the file, as key=value; repeatable.",
            valueName: "key=value"))
    var set: [String] = []

    func validate() throws {
        if set.contains(where: { !$0.contains("=") || $0.hasPrefix("=") }) {
            // The value may be a secret and is therefore not printed.
            throw ValidationError("--set must be key=value (write --set session.idleTimeout=5m)")
        }
    }

    var sources: ConfigSources {
        ConfigSources(
            file: config, environment: ProcessInfo.processInfo.environment,
            overrides: set.map { assignment in
                let parts = assignment.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                return (key: String(parts[0]), value: parts.count > 1 ? String(parts[1]) : "")
            })
    }
}

extension CommandReport {
    /// Prints the text and ends the command with the report's exit code.
    func finish() throws {
        try FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
        if exitCode != 0 { throw ExitCode(exitCode) }
    }
}
