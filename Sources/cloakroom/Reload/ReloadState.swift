import CloakroomConfig
import CloakroomCore
import Synchronization

struct ReloadOutcome: Sendable, Equatable {
    var time: WallTime
    /// The event that started the reload.
    var trigger: ReloadTrigger
    /// The errors of the new configuration, one sentence each; empty if it was applied.
    var problems: [String]
    /// The warnings about the applied configuration, one line each.
    var warnings: [String] = []
    /// The hash of the configuration file in effect after the reload; see ``ConfigStatus/hash``.
    var hash: String

    var isSuccess: Bool { problems.isEmpty }
}

/// The status of the current configuration and the outcome of the last reload, shared between threads.
final class ReloadState: Sendable {
    private struct State {
        var status: ConfigStatus
        var configuration: ReloadConfiguration
    }

    private let state: Mutex<State>

    /// Creates the state from the configuration at the start.
    init(_ sources: ConfigSources, running: ConfigFileSnapshot, now: WallTime) {
        let status = ConfigStatus(
            file: sources.standardInput == nil ? sources.file : sources.name,
            hash: running.stamp.hash(of: sources), loadedAt: now)
        state = Mutex(State(status: status, configuration: running.config.reload))
    }

    /// The configuration status for the status page.
    var status: ConfigStatus { state.withLock { $0.status } }

    /// Whether and how often files are polled.
    var configuration: ReloadConfiguration { state.withLock { $0.configuration } }

    /// Records an outcome. If it is a success, `configuration` applies to subsequent polls.
    func record(_ outcome: ReloadOutcome, configuration: ReloadConfiguration) {
        state.withLock { state in
            state.status.lastReload = ConfigStatus.Reload(time: outcome.time, problems: outcome.problems)
            guard outcome.isSuccess else { return }
            state.status.hash = outcome.hash
            state.status.loadedAt = outcome.time
            state.configuration = configuration
        }
    }
}
