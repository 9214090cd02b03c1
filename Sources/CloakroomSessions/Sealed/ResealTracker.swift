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
        var startedAt = SessionTime(milliseconds: .min)
    }

    private let capacity: Int
    private let state = Mutex(State())

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    /// Whether a session may be resealed now; if so, the reseal is recorded.
    func admit(_ id: SessionID, now: SessionTime) -> Bool {
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

/// Records whose insertion is uncertain because the store did not respond. Their clients received 503 and have no
/// ticket, so each such record would be listed for its account until its idle timeout. They are removed as soon as the
/// store responds again.
///
/// A store may execute an insert after the gateway has abandoned it, so a missing record is final only a minute after
/// the failure. Bounded: beyond the limit, a record stays until its idle timeout.
final class UncertainInserts: Sendable {
    /// How long a record that was not found may still appear.
    static let patience = Duration.seconds(60)
    private static let maxPause = Duration.seconds(16)

    private struct Entry {
        /// By the clock of the sessions.
        let madeAt: SessionTime
        let failedAt: ContinuousClock.Instant
        var pause = Duration.seconds(1)
        var dueAt: ContinuousClock.Instant
    }

    private let capacity: Int
    private let entries = Mutex<[UInt64: Entry]>([:])

    init(capacity: Int = 10_000) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.withLock(\.count) }

    /// - Parameter madeAt: The creation time of the session, by the clock of the sessions.
    func note(_ id: SessionID, madeAt: SessionTime, now: ContinuousClock.Instant = .now) {
        entries.withLock { entries in
            guard entries.count < capacity else { return }
            entries[id.value] = Entry(madeAt: madeAt, failedAt: now, dueAt: now)
        }
    }

    /// The records that are to be removed now, those first whose last attempt is the longest ago.
    func due(now: ContinuousClock.Instant) -> [(id: SessionID, madeAt: SessionTime)] {
        entries.withLock { entries in
            entries.filter { $0.value.dueAt <= now }.sorted { $0.value.dueAt < $1.value.dueAt }
                .map { (SessionID($0.key), $0.value.madeAt) }
        }
    }

    /// The record could not be removed: the others are removed first.
    func failed(_ id: SessionID, now: ContinuousClock.Instant) {
        entries.withLock { $0[id.value]?.dueAt = now }
    }

    func removed(_ id: SessionID) {
        entries.withLock { $0[id.value] = nil }
    }

    /// The record was not found: it is searched for again, at growing intervals, until it cannot appear any more.
    func notFound(_ id: SessionID, now: ContinuousClock.Instant) {
        entries.withLock { entries in
            guard var entry = entries[id.value] else { return }
            if now >= entry.failedAt + Self.patience {
                entries[id.value] = nil
                return
            }
            entry.dueAt = now + entry.pause
            entry.pause = min(entry.pause * 2, Self.maxPause)
            entries[id.value] = entry
        }
    }
}
