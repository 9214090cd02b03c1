import ArgumentParser
import CloakroomConfig
import CloakroomCore
import CloakroomProxy
import CloakroomTelemetry
import Foundation

/// `cloakroom serve`: production.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway.",
        discussion: """
            SIGTERM or SIGINT lets running exchanges finish, up to timeouts.drain; a second one ends at once. SIGHUP reads \
            the configuration again, and so does a change of its file unless reload.watch is false: all of it is put to \
            use, or nothing.
            """)

    @OptionGroup var options: ConfigOptions

    @Option(
        name: .long,
        help: ArgumentHelp(
            "From which level on lines are logged: trace, debug, info, notice, warning, error or critical. The same as"
                + " --set logging.level=LEVEL.", valueName: "level"))
    var logLevel: String?

    @Flag(
        name: .long,
        help: ArgumentHelp(
            "Share the addresses of the listeners with a gateway that runs on them already, in order to replace it. Without"
                + " it, an address in use is an error."))
    var takeOver = false

    @Flag(
        help: ArgumentHelp(
            "Allow core dumps, and debuggers and profilers of the same user. For debugging only: what they read contains"
                + " tokens and secrets."))
    var allowCoreDumps = false

    /// Where the configuration comes from, now and at each reload.
    var sources: ConfigSources {
        var sources = options.sources
        if let logLevel { sources.overrides.append(("logging.level", logLevel)) }
        return sources
    }

    func run() async throws {
        // Before any secret is read.
        if !allowCoreDumps { CoreDumps.disable() }
        let running: ConfigFileSnapshot
        do throws(ConfigDiagnostics) {
            running = try ConfigFileSnapshot.read(sources)
        } catch {
            throw try CommandFailure.exit(error.problems)
        }
        let configuration = running.config.configuration
        // Everything that keeps the gateway from starting is told at once, before anything is started.
        let found = running.config.problems(
            ListenerCheck.findings(in: configuration, takesOverListeners: takeOver)
                + TLSFileChecks.findings(in: configuration))
        let errors = found.filter { $0.severity == .error }
        guard errors.isEmpty else { throw try CommandFailure.exit(errors) }
        let telemetry = GatewayTelemetry(settings: TelemetrySettings(configuration))
        let now = Timestamp.now
        telemetry.metrics.recordStart(now: now)
        let state = ReloadState(sources, running: running, now: now)
        // Before anything listens: from here on SIGHUP no longer ends the process.
        let triggers = await ReloadTrigger.live(state)
        try await CommandFailure.report(running.config) {
            let gateway = try await Gateway(
                configuration: configuration, telemetry: telemetry, takesOverListeners: takeOver
            ) { state.status }
            gateway.noteWarnings(running.config.warnings(and: found))
            let reload = ReloadService(
                sources: sources, running: running, state: state, triggers: triggers
            ) {
                try await gateway.apply($0)
            } onOutcome: {
                gateway.noteReload($0)
            }
            try await gateway.run(beside: reload)
        }
    }
}

/// Says on standard error why a command cannot go on, and ends it.
enum CommandFailure {
    /// - Parameter config: The configuration that the command goes by: an error that one of its values has caused is told
    ///   with the value's line.
    static func report(_ config: LoadedConfig? = nil, _ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            let isPlaced = (error as? any ConfigFindingError)?.finding != nil
            guard let config, isPlaced else { throw try exit("cloakroom: \(error)") }
            throw try exit(config.description(of: error))
        }
    }

    /// Writes problems to standard error, a line each.
    static func exit(_ problems: [ConfigDiagnostic]) throws -> ExitCode {
        try exit(problems.map(\.description).joined(separator: "\n"))
    }

    private static func exit(_ text: String) throws -> ExitCode {
        try FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
        return ExitCode(1)
    }
}
