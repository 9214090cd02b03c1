import CloakroomConfig
import CloakroomCore
import ServiceLifecycle

/// Puts another configuration to use while requests are served: on SIGHUP, and when one of its files has changed.
///
/// Everything is read anew and checked first; then it is in effect as a whole, or nothing of it is. One attempt ends
/// before the next begins.
struct ReloadService: Service, Unprintable {
    private let triggers: AsyncStream<ReloadTrigger>
    private let reloader: Reloader

    /// Makes the service.
    /// - Parameters:
    ///   - sources: Where the configuration comes from, the same as at the start.
    ///   - running: What is in effect at the start.
    ///   - state: Is told each outcome.
    ///   - triggers: When to look; see ``ReloadTrigger/live(_:)``.
    ///   - check: Tries what only trying tells, as `check-config` does.
    ///   - now: The time.
    ///   - apply: Puts a plan to use, all of it; or throws an error that describes itself, and then nothing has changed.
    ///   - onOutcome: Is told each outcome too, once for each change of the files and for each signal.
    init(
        sources: ConfigSources, running: ConfigFileSnapshot, state: ReloadState, triggers: AsyncStream<ReloadTrigger>,
        check: @escaping @Sendable (GatewayConfiguration) -> [ConfigFinding] = { TLSFileChecks.findings(in: $0) },
        now: @escaping @Sendable () -> Timestamp = { .now },
        apply: @escaping @Sendable (GatewayConfiguration) async throws -> Void,
        onOutcome: @escaping @Sendable (ReloadOutcome) -> Void
    ) {
        self.triggers = triggers
        reloader = Reloader(
            sources: sources, state: state, check: check, now: now, apply: apply, onOutcome: onOutcome,
            running: running)
    }

    func run() async {
        var reloader = reloader
        for await trigger in triggers.cancelOnGracefulShutdown() {
            await reloader.handle(trigger)
        }
    }
}
