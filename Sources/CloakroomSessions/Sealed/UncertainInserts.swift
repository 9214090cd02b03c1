import CloakroomCore
import Synchronization

/// Records of which it is not known whether they were inserted: the store did not answer. Their clients were answered with
/// 503 and have no ticket, so each such record would stand in its account's list until its idle timeout. They are taken
/// out again as soon as the store answers.
///
/// A store may carry an insert out after it was given up, so that finding none is final only a minute after the failure.
/// Bounded: where there is no room, the record is left to its idle timeout.
final class UncertainInserts: Sendable {
    /// How long a record that was not found may still appear.
    static let patience = Duration.seconds(60)
    private static let longestPause = Duration.seconds(16)

    private struct Entry {
        /// By the time that sessions live by.
        let madeAt: Timestamp
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

    /// - Parameter madeAt: When the session was to be made, by the time that sessions live by.
    func note(_ id: SessionID, madeAt: Timestamp, now: ContinuousClock.Instant = .now) {
        entries.withLock { entries in
            guard entries.count < capacity else { return }
            entries[id.value] = Entry(madeAt: madeAt, failedAt: now, dueAt: now)
        }
    }

    /// Those that are to be taken out now.
    func due(now: ContinuousClock.Instant) -> [(id: SessionID, madeAt: Timestamp)] {
        entries.withLock { entries in
            entries.filter { $0.value.dueAt <= now }.map { (SessionID($0.key), $0.value.madeAt) }
        }
    }

    /// A record was taken out.
    func removed(_ id: SessionID) {
        entries.withLock { $0[id.value] = nil }
    }

    /// There was no record: it is searched for again, at growing intervals, until it cannot appear any more.
    func notFound(_ id: SessionID, now: ContinuousClock.Instant) {
        entries.withLock { entries in
            guard var entry = entries[id.value] else { return }
            if now >= entry.failedAt + Self.patience {
                entries[id.value] = nil
                return
            }
            entry.dueAt = now + entry.pause
            entry.pause = min(entry.pause * 2, Self.longestPause)
            entries[id.value] = entry
        }
    }
}
