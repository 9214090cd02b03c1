import ArgumentParser
import CloakroomConfig

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
            TLSFileChecks.findings(in: configuration)
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
