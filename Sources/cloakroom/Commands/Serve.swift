import ArgumentParser
import CloakroomBuild
import CloakroomConfig
import CloakroomCore
import CloakroomProxy
import CloakroomTelemetry
import Foundation
import Logging
import Metrics
import ServiceLifecycle

/// `cloakroom serve`: runs the gateway.
///
/// Folder `Commands/`: one type per command: its options, its exit code, and what it starts.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the gateway.",
        discussion: """
            On SIGTERM or SIGINT, in-flight requests get timeouts.drain to complete; a second signal ends the process at \
            once. SIGHUP, `cloakroom reload` or a file change reloads the configuration atomically; reload.interval: 0s \
            disables the last. Under systemd with Type=notify, the gateway reports readiness, reloads and its watchdog.
            """)

    @OptionGroup var options: ConfigOptions
    @OptionGroup var control: ControlSocketOptions

    @Option(
        help: ArgumentHelp(
            "Minimum log level: trace, debug, info, notice, warning, error or critical. The same as"
                + " --set logging.level=LEVEL.", valueName: "level"))
    var logLevel: String?

    @Flag(
        help: ArgumentHelp(
            "Share the listener addresses with a running gateway, in order to replace it. Without this flag, an address in"
                + " use is an error."))
    var takeOver = false

    @Flag(
        help: ArgumentHelp(
            "Allow core dumps, and debuggers and profilers of the same user. For debugging only: the process's memory"
                + " contains tokens and secrets."))
    var allowCoreDumps = false

    /// The configuration sources at the start and at each reload.
    var sources: ConfigSources {
        get throws {
            var sources = try options.sources
            if let logLevel { sources.overrides.append(("logging.level", logLevel)) }
            return sources
        }
    }

    func run() async throws {
        let notifySocket = NotifySocket.take()
        var inherited = InheritedSockets()
        try await CommandFailure.report { inherited = try InheritedSockets.take() }
        let controlPath = try control.path()
        // Must precede reading any secret.
        if !allowCoreDumps { CoreDumps.disable() }
        try await CommandFailure.report { _ = try FileDescriptorLimit.raised() }
        let sources = try sources
        let running: ConfigFileSnapshot
        do throws(ConfigDiagnostics) {
            running = try ConfigFileSnapshot.read(sources)
        } catch {
            throw try CommandFailure.exit(error.problems)
        }
        let configuration = running.config.configuration
        // All start errors are reported together, before any service starts.
        let found = running.config.problems(
            ListenerCheck.findings(in: configuration, sharesListeners: takeOver, inherited: inherited)
                + ReferencedFileChecks.findings(in: configuration))
        let errors = found.filter { $0.severity == .error }
        guard errors.isEmpty else { throw try CommandFailure.exit(errors) }
        let telemetry = GatewayTelemetry(settings: TelemetrySettings(configuration))
        // Libraries record into the same registry.
        MetricsSystem.bootstrap(telemetry.registry)
        let now = WallTime.now
        telemetry.metrics.config.recordStart(now: now)
        let state = ReloadState(sources, running: running, now: now)
        // Must precede the start of the listeners: from this call on SIGHUP no longer ends the process.
        let requests = ReloadRequests()
        let triggers = await ReloadTrigger.live(state, requests: requests)
        let notifier = ServiceStatusNotifier(
            awaiting: Set(
                [.clients] + (configuration.admin == nil ? [] : [.admin]) + (controlPath == nil ? [] : [.control])),
            socket: notifySocket, logger: Logger(label: "cloakroom") { telemetry.makeLogHandler(label: $0) })
        try await CommandFailure.report(running.config) {
            let gateway = try await Gateway(
                configuration: configuration, telemetry: telemetry, sharesListeners: takeOver, inherited: inherited,
                configStatus: { state.status },
                onListening: { notifier.started(.clients, addresses: $0.map { "\($0.address)" }) },
                onAdminListening: { _ in notifier.started(.admin) })
            gateway.noteWarnings(running.config.warnings(and: found))
            let reload = ReloadService(
                triggers: triggers,
                reloader: Reloader(
                    sources: sources, state: state, apply: { try await gateway.apply($0) },
                    onProgress: { notifier.reload($0) },
                    onOutcome: {
                        gateway.noteReload($0)
                        notifier.noteReload($0)
                    }, running: running))
            let controlSocket = controlPath.map {
                ControlSocketService(
                    path: $0, replacesOther: takeOver, reload: { await requests.perform() },
                    isReady: { await gateway.isReady() }, why: { telemetry.rejectedRequests.document(of: $0) },
                    onListening: { notifier.started(.control) })
            }
            let supervision = SupervisionService(
                notifier: notifier, watchdogInterval: notifySocket?.watchdogInterval,
                passThroughLoops: { await gateway.passThroughLoops() },
                sendWatchdog: { _ = notifySocket?.send("WATCHDOG=1") })
            try await gateway.run(beside: [reload] + (controlSocket.map { [$0] } ?? []) + [supervision])
        }
    }
}

/// Controls core dumps; the process's memory contains tokens.
enum CoreDumps {
    /// Disables core dumps permanently, and access to the process's memory by other processes of the user. A failure is
    /// printed to standard error and does not end the process: a sandbox may forbid the call and set the limit itself.
    static func disable() {
        let error = cloakroom_disable_core_dumps()
        guard error != 0 else { return }
        try? FileHandle.standardError.write(
            contentsOf: Data("cloakroom: core dumps cannot be disabled: \(String(cString: strerror(error)))\n".utf8))
    }
}
