import ArgumentParser
import CloakroomConfig
import CloakroomCore
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
        let running: ReadConfig
        do throws(ConfigProblems) {
            running = try ReadConfig.read(sources)
        } catch {
            try FileHandle.standardError.write(
                contentsOf: Data(error.problems.map { $0.description + "\n" }.joined().utf8))
            throw ExitCode(1)
        }
        let plan = running.config.plan
        let telemetry = GatewayTelemetry(settings: TelemetrySettings(plan))
        let now = Timestamp.now
        telemetry.metrics.recordStart(now: now)
        let state = ReloadState(sources, running: running, now: now)
        // Before anything listens: from here on SIGHUP no longer ends the process.
        let triggers = await ReloadTrigger.live(state)
        try await CommandFailure.report {
            let gateway = try await Gateway(plan: plan, telemetry: telemetry) { state.status }
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
    static func report(_ body: () async throws -> Void) async throws {
        do {
            try await body()
        } catch {
            try FileHandle.standardError.write(contentsOf: Data("cloakroom: \(error)\n".utf8))
            throw ExitCode(1)
        }
    }
}
