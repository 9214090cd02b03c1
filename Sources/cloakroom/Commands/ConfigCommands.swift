import ArgumentParser
import CloakroomConfig
import CloakroomCore
import CloakroomProxy
import Foundation
import NIOCore

/// `cloakroom check-config`: reports every problem with which `serve` would not start.
struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config", abstract: "Report every error in a configuration.",
        discussion: """
            Prints one line for each error and warning, with file, line, column and key. Exits with 1 if there is an error, \
            with --strict also if there is a warning. With --offline, files that the configuration references, such as \
            secrets and certificates, are not opened and need not exist. With --probe, the servers of a Valkey session store \
            are connected to.
            """)

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    @Flag(help: "Exit with 1 if there is a warning.")
    var strict = false

    @Flag(
        help: "Do not open referenced files: secrets, certificates, keys, the session database.")
    var offline = false

    @Flag(help: "Connect to the servers of a Valkey session store: check their kind and the user's permissions.")
    var probe = false

    func validate() throws {
        if probe, offline { throw ValidationError("--probe needs secrets and certificates (remove --offline)") }
    }

    func run() async throws {
        var sources = try options.sources
        sources.isOffline = offline
        let store = probe ? try await storeFindings(sources) : []
        let report = CommandReport.checkConfig(sources, isStrict: strict) { configuration in
            ReferencedFileChecks.findings(in: configuration) + store + FileFindings.findings(in: configuration)
                + UpstreamCapacityRules.findings(
                    in: configuration, loops: configuration.eventLoops ?? System.coreCount)
        }
        try report.finish(asJSON: output.json)
    }

    /// What prevents the use of the session store's servers. Empty if the configuration has errors, which the report
    /// contains.
    private func storeFindings(_ sources: ConfigSources) async throws -> [ConfigFinding] {
        guard let session = try? loadConfig(sources).configuration.session, session.store == .valkey else { return [] }
        do {
            return try await StoreDiagnosis(configuration: session).findings()
        } catch is any ConfigFindingError {
            // An invalid file for TLS, which the report contains too.
            return []
        }
    }
}

/// `cloakroom print-config`: the effective values and their sources.
struct PrintConfig: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "print-config", abstract: "Show the effective values and the source of each.",
        discussion: "Secrets are shown as <redacted>.")

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    func run() throws {
        try CommandReport.printConfig(options.sources).finish(asJSON: output.json)
    }
}

/// `cloakroom explain`: shows how a request would be routed.
struct Explain: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show how a request would be routed, without sending it.")

    @Argument(help: "The method, for example GET.", transform: { try Explain.inOrder($0, isMethod: true) })
    var method: String

    @Argument(
        help: "The target, for example /videos/1?quality=hd.", transform: { try Explain.inOrder($0, isMethod: false) })
    var target: String

    @Option(
        help: "The Host of the request, for example app.example.com. The default is the host in the target, if any.")
    var host: String?

    // Last, because its FILE can be left out.
    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    /// An argument, unless it is evidently one of the others: a path or a file as the method, a method or a file as the
    /// target. Checked here because the file is checked before `validate()`.
    private static func inOrder(_ text: String, isMethod: Bool) throws -> String {
        let isPath = text.hasPrefix("/") || text.contains("://")
        let isFile = text == "-" || text.hasSuffix(".yaml") || text.hasSuffix(".yml")
        let isMethodName = !text.isEmpty && text.utf8.allSatisfy { (0x41...0x5A).contains($0) }
        guard isMethod ? isPath || isFile || text.contains("/") : isMethodName || isFile && !isPath else { return text }
        throw ValidationError("the order is METHOD TARGET FILE (write cloakroom explain GET /videos/1 cloakroom.yaml)")
    }

    func run() throws {
        try CommandReport.explain(options.sources, method: method, target: target, host: host) { try? FileScan.run($0) }
            .finish(asJSON: output.json)
    }
}

/// `cloakroom routes`: the route table, or its differences from another one.
struct Routes: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the route table, or its differences from another one.",
        discussion: "With --diff, exits with 3 if a public route is new or reaches something else.")

    @OptionGroup var options: ConfigOptions
    @OptionGroup var output: OutputOptions

    @Option(
        help: ArgumentHelp("An older configuration file; show the changes from it to FILE.", valueName: "file"),
        completion: .file(extensions: ["yaml", "yml"]))
    var diff: String?

    func validate() throws {
        if diff == "-", options.config == "-" || options.file == "-" {
            throw ValidationError("FILE and --diff cannot both be standard input (write one of them into a file)")
        }
    }

    func run() throws {
        guard let diff else { return try CommandReport.routes(options.sources).finish(asJSON: output.json) }
        let other = try ConfigPlace(diff).sources()
        try CommandReport.routes(options.sources, comparedWith: other).finish(asJSON: output.json)
    }
}

/// `cloakroom config-reference`: prints the reference of all keys for the project's documentation.
struct ConfigReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config-reference", abstract: "Print the reference of all configuration keys in Markdown.",
        shouldDisplay: false)

    @Option(help: "The file whose comments describe the keys.")
    var comments = "config/cloakroom.yaml"

    func run() throws {
        let yaml = try String(contentsOfFile: comments, encoding: .utf8)
        try CommandOutput.print(ConfigurationReference(comments: yaml).markdown)
    }
}
