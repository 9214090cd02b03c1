import CloakroomCore
import Synchronization

/// The reasons why recently ended sessions ended. Bounded in number and in age: after eviction the reason is
/// `no_session`.
struct Tombstones {
    /// How long the reason for the end of a session is available.
    static let lifetime = Duration.seconds(300)

    private struct Tombstone {
        var endedAt: Timestamp
        var reason: SessionEndReason
    }

    private let capacity: Int
    private var entries: [UInt64: Tombstone] = [:]
    /// The ids in insertion order, as a ring once it is full.
    private var order: [UInt64] = []
    private var oldest = 0

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count }

    mutating func add(_ id: UInt64, reason: SessionEndReason, now: Timestamp) {
        if order.count < capacity {
            order.append(id)
        } else {
            entries[order[oldest]] = nil
            order[oldest] = id
            oldest = (oldest + 1) % capacity
        }
        entries[id] = Tombstone(endedAt: now, reason: reason)
    }

    /// Whether the end of a session is recorded.
    func contains(_ id: UInt64, now: Timestamp) -> Bool {
        entries[id].map { now < $0.endedAt + Self.lifetime } ?? false
    }

    /// The reason for the ticket of a missing session.
    func reason(for id: UInt64, now: Timestamp) -> UnauthorizedReason {
        guard let stone = entries[id], now < stone.endedAt + Self.lifetime else { return .noSession }
        return stone.reason.unauthorizedReason
    }
}

/// The unreadable records that were reported, so that the audit log has a line for each record and not for each
/// request. Bounded: an evicted record is reported again.
final class ReportedRecordSet: Sendable {
    private let known = Mutex(Tombstones(capacity: 4_096))

    /// Whether a record was not reported in the last minutes.
    func isNew(_ id: SessionID, now: Timestamp) -> Bool {
        known.withLock { known in
            guard !known.contains(id.value, now: now) else { return false }
            known.add(id.value, reason: .unreadable, now: now)
            return true
        }
    }
}
