import ArgumentParser
import CloakroomConfig

/// `cloakroom check-config`: everything that `serve` would refuse, all at once.
struct CheckConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config", abstract: "Find every mistake in a configuration.",
        discussion: """
            Prints one line for each error and warning, with file, line, column and key. Exits with 1 if there is an error, \
            with --strict also if there is a warning. With --offline the files that the configuration names, such as those \
            of secrets and certificates, are not opened and need not be there.
            """)

    @OptionGroup var options: ConfigOptions

    @Flag(help: "Exit with 1 if there is a warning.")
    var strict = false

    @Flag(
        help: "Do not open the files that the configuration names: secrets, certificates, keys, the session database.")
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

/// `cloakroom print-config`: what is in effect, and why.
struct PrintConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print-config", abstract: "Show the values in effect and where each came from.",
        discussion: "Secrets are shown as <redacted>.")

    @OptionGroup var options: ConfigOptions

    func run() throws {
        try CommandReport.printConfig(options.sources).finish()
    }
}

/// `cloakroom explain`: what would become of a request.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show what would become of a request, without sending anything.")

    @OptionGroup var options: ConfigOptions

    @Argument(help: "The method, for example GET.")
    var method: String

    @Argument(help: "The target, for example /videos/1?quality=hd.")
    var target: String

    func run() throws {
        try CommandReport.explain(options.sources, method: method, target: target).finish()
    }
}

/// `cloakroom routes`: the route table, and what another one would change.
struct Routes: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the route table, or what differs from another one.",
        discussion: "With --diff, ends with 3 if something became public or was added as public.")

    @OptionGroup var options: ConfigOptions

    @Option(name: .long, help: "Another configuration file: show what changes from that one to this one.")
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
