import CloakroomConfig
import CloakroomCore
import Synchronization

/// What came of an attempt to put another configuration to use.
struct ReloadOutcome: Sendable, Equatable {
    /// When.
    var time: Timestamp
    /// What asked for it.
    var trigger: ReloadTrigger
    /// What is wrong with it, a sentence each; empty if it is in effect.
    var problems: [String]
    /// What does not keep it from being in effect, a line each.
    var warnings: [String] = []
    /// The hash of the file that is in effect now; see ``ConfigStatus/hash``.
    var hash: String

    var isSuccess: Bool { problems.isEmpty }
}

/// Which configuration is in effect and what came of the last attempt at another one, for whoever asks.
final class ReloadState: Sendable {
    private struct State {
        var status: ConfigStatus
        var configuration: ReloadConfiguration
    }

    private let state: Mutex<State>

    /// Notes what a gateway starts with.
    init(_ sources: ConfigSources, running: ConfigFileSnapshot, now: Timestamp) {
        let status = ConfigStatus(
            file: sources.file, hash: running.stamp.hash(of: sources.file), loadedAt: now)
        state = Mutex(State(status: status, configuration: running.config.reload))
    }

    /// For the status page.
    var status: ConfigStatus { state.withLock { $0.status } }

    /// When files are looked at.
    var configuration: ReloadConfiguration { state.withLock { $0.configuration } }

    /// Notes an outcome, and the plan for further ones if it is a good one.
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
