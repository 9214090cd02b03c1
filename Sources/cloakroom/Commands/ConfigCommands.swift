import ArgumentParser
import CloakroomConfig
import CloakroomCore
import Foundation
import NIOCore

/// `cloakroom check-config`: reports every problem with which `serve` would not start.
struct CheckConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config", abstract: "Report every error in a configuration.",
        discussion: """
            Prints one line for each error and warning, with file, line, column and key. Exits with 1 if there is an error, \
            with --strict also if there is a warning. With --offline, files that the configuration references, such as \
            secrets and certificates, are not opened and need not exist.
            """)

    @OptionGroup var options: ConfigOptions

    @Flag(help: "Exit with 1 if there is a warning.")
    var strict = false

    @Flag(
        help: "Do not open referenced files: secrets, certificates, keys, the session database.")
    var offline = false

    func run() throws {
        var sources = options.sources
        sources.isOffline = offline
        let report = CommandReport.checkConfig(sources, isStrict: strict) { configuration in
            ReferencedFileChecks.findings(in: configuration)
                + UpstreamCapacityRules.findings(
                    in: configuration, loops: configuration.eventLoops ?? System.coreCount)
        }
        try report.finish()
    }
}

/// `cloakroom print-config`: the effective values and their sources.
struct PrintConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print-config", abstract: "Show the effective values and the source of each.",
        discussion: "Secrets are shown as <redacted>.")

    @OptionGroup var options: ConfigOptions

    func run() throws {
        try CommandReport.printConfig(options.sources).finish()
    }
}

/// `cloakroom explain`: shows how a request would be routed.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how a request would be routed, without sending it.")

    @OptionGroup var options: ConfigOptions

    @Argument(help: "The method, for example GET.")
    var method: String

    @Argument(help: "The target, for example /videos/1?quality=hd.")
    var target: String

    func run() throws {
        try CommandReport.explain(options.sources, method: method, target: target).finish()
    }
}

/// `cloakroom routes`: the route table, or its differences from another one.
struct Routes: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the route table, or its differences from another one.",
        discussion: "With --diff, exits with 3 if a route became public or a public route was added.")

    @OptionGroup var options: ConfigOptions

    @Option(name: .long, help: "An older configuration file; show the changes from it to --config.")
    var diff: String?

    func run() throws {
        if let diff {
            let other = ConfigSources(file: diff, environment: options.sources.environment)
            try CommandReport.routes(options.sources, comparedWith: other).finish()
        } else {
            try CommandReport.routes(options.sources).finish()
        }
    }
}

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

/// `cloakroom config-reference`: prints the reference of all keys for the project's documentation.
struct ConfigReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config-reference", abstract: "Print the reference of all configuration keys in Markdown.",
        shouldDisplay: false)

    @Option(name: .long, help: "The file whose comments describe the keys.")
    var comments = "config/cloakroom.yaml"

    func run() throws {
        let yaml = try String(contentsOfFile: comments, encoding: .utf8)
        try FileHandle.standardOutput.write(contentsOf: Data(ConfigurationReference(comments: yaml).markdown.utf8))
    }
}
