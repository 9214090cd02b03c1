import CloakroomCore
import Synchronization

/// The sessions that were resealed recently. Two replicas whose secrets are in opposite order would otherwise reseal a
/// session at each request: a replica reseals one session at most once in ``period``.
///
/// Bounded: if more sessions than `capacity` would be resealed within a period, the others wait for the next one.
final class ResealTracker: Sendable {
    /// The minimum time between two reseals of a session; the actual time is up to twice as long.
    static let period = Duration.seconds(600)

    private struct State {
        /// The sessions of the current period, and of the one before.
        var current: Set<UInt64> = []
        var previous: Set<UInt64> = []
        var startedAt = Timestamp(milliseconds: .min)
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// Whether a session may be resealed now; if so, the reseal is recorded.
    func admit(_ id: SessionID, now: Timestamp) -> Bool {
        state.withLock { state in
            // A clock that went back starts a period too: otherwise nothing would be admitted until it catches up.
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
