public import CloakroomCore
import Synchronization

/// Lets one line through in a while, where the same thing happens again and again.
public final class LogRateLimiter: Sendable {
    private struct State {
        var last: Timestamp?
        var unlogged = 0
    }

    private let interval: Duration
    private let state = Mutex(State())

    /// - Parameter interval: From one line to the next.
    public init(interval: Duration) {
        self.interval = interval
    }

    /// Whether a line may be written now.
    /// - Returns: How many were left out since the last one; `nil` if this one is left out too.
    public func allow(at now: Timestamp) -> Int? {
        state.withLock { state in
            // A clock that jumped back must not keep lines out for long.
            if let last = state.last, now >= last, now - last < interval {
                state.unlogged += 1
                return nil
            }
            defer { state = State(last: now) }
            return state.unlogged
        }
    }
}
