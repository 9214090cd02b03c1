import CloakroomConfig
import CloakroomCore
import ServiceLifecycle
import UnixSignals

/// Reloads the configuration on SIGHUP and when one of its files has changed, while requests are served.
///
/// A new configuration is read and validated completely, then applied atomically. Reloads never overlap.
struct ReloadService: Service, Unprintable {
    private let triggers: AsyncStream<ReloadTrigger>
    private let reloader: Reloader

    /// Creates the service.
    /// - Parameters:
    ///   - sources: The configuration sources, the same as at the start.
    ///   - running: The configuration in effect at the start.
    ///   - state: Records each outcome.
    ///   - triggers: The events that start a reload or a poll; see ``ReloadTrigger/live(_:)``.
    ///   - check: Performs the checks that need file access, as `check-config` does.
    ///   - now: Returns the current time.
    ///   - apply: Applies a configuration atomically. If it throws, the previous configuration must still be in effect;
    ///     the error's description is reported.
    ///   - onOutcome: Is called with each outcome, once for each change of the files and for each signal.
    init(
        sources: ConfigSources, running: ConfigFileSnapshot, state: ReloadState, triggers: AsyncStream<ReloadTrigger>,
        check: @escaping @Sendable (GatewayConfiguration) -> [ConfigFinding] = {
            ReferencedFileChecks.findings(in: $0)
        },
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

/// An event that makes a running gateway read its configuration again.
enum ReloadTrigger: Sendable, Equatable {
    /// SIGHUP: the configuration is read and applied even if no file has changed.
    case signal
    /// The poll interval has passed. A change is applied when two consecutive polls find the same contents.
    case poll
}

extension ReloadTrigger {
    /// Returns a stream of SIGHUP signals and of polls at the interval of the current configuration.
    ///
    /// Must be called before the listeners start, because SIGHUP ends the process until this call. The tasks that it
    /// starts end with the stream.
    static func live(_ state: ReloadState) async -> AsyncStream<ReloadTrigger> {
        let signals = await UnixSignalsSequence(trapping: .sighup)
        let (stream, continuation) = AsyncStream<ReloadTrigger>.makeStream()
        let waiting = Task {
            for await _ in signals { continuation.yield(.signal) }
        }
        let polling = Task {
            while !Task.isCancelled {
                try await Task.sleep(for: state.configuration.interval)
                if state.configuration.watchesFiles { continuation.yield(.poll) }
            }
        }
        continuation.onTermination = { _ in
            waiting.cancel()
            polling.cancel()
        }
        return stream
    }
}
