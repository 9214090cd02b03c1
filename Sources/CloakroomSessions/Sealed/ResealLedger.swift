import CloakroomCore
import Synchronization

/// Which sessions were sealed anew lately, so that two replicas whose secrets are in opposite order do not take turns at
/// each request: a replica seals one session anew at most once in ``period``.
///
/// Bounded: where more sessions than `capacity` would be sealed anew within a period, the others wait for the next one.
final class ResealTracker: Sendable {
    /// A session is not sealed anew again before this is over, and may be after twice as long.
    static let period = Duration.seconds(600)

    private struct State {
        /// Those of the period under way, and of the one before.
        var current: Set<UInt64> = []
        var previous: Set<UInt64> = []
        var startedAt = Timestamp(milliseconds: .min)
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// Whether a session may be sealed anew now; if so, that is noted.
    func admit(_ id: SessionID, now: Timestamp) -> Bool {
        state.withLock { state in
            // A clock that went back begins a period too: otherwise nothing would be admitted until it is there again.
            if now < state.startedAt || now >= state.startedAt + Self.period {
                let isLongAgo = now < state.startedAt || now >= state.startedAt + Self.period + Self.period
                state.previous = isLongAgo ? [] : state.current
                state.current = []
                state.startedAt = now
            }
            guard !state.previous.contains(id.value), state.current.count < capacity else { return false }
            return state.current.insert(id.value).inserted
        }
    }
}
