public import CloakroomCore
import Synchronization

/// Limits the rate of log lines about a repeated event to one per interval.
public final class LogRateLimiter: Sendable {
    private struct State {
        var last: Timestamp?
        var suppressed = 0
    }

    private let interval: Duration
    private let state = Mutex(State())

    /// - Parameter interval: The minimum time between two lines.
    public init(interval: Duration) {
        self.interval = interval
    }

    /// Checks whether a line may be written now.
    /// - Returns: The number of lines suppressed since the last one; `nil` if this line is suppressed too.
    public func allow(at now: Timestamp) -> Int? {
        state.withLock { state in
            // A clock set back must not suppress lines for long.
            if let last = state.last, now >= last, now - last < interval {
                state.suppressed += 1
                return nil
            }
            defer { state = State(last: now) }
            return state.suppressed
        }
    }
}
