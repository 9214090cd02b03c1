import Logging
import Synchronization

/// Logs why connections to a target fail, at most one line per ``interval``: clients must not be able to fill the disk
/// with log lines.
final class ConnectFailureLog: Sendable {
    /// Minimum time between two lines, in nanoseconds.
    static let interval: UInt64 = 10_000_000_000
    private static let longestReason = 500

    private struct State {
        var mayLogAt: UInt64 = 0
        var suppressed = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    /// - Parameter logger: Includes the names of upstream and target as metadata.
    init(_ logger: Logger) {
        self.logger = logger
    }

    /// Records a failed attempt.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func failed(_ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64) {
        let unlogged: Int? = state.withLock { state in
            guard now >= state.mayLogAt else {
                state.suppressed += 1
                return nil
            }
            state.mayLogAt = now &+ Self.interval
            defer { state.suppressed = 0 }
            return state.suppressed
        }
        guard let unlogged else { return }
        logger.warning(
            "upstream connection failed",
            metadata: [
                "kind": "\(kind)", "reason": "\(String("\(error)".prefix(Self.longestReason)))",
                "unlogged": "\(unlogged)",
            ])
    }
}
