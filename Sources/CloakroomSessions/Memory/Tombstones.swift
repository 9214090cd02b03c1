import CloakroomCore
import Synchronization

/// The reasons why recently ended sessions ended. Bounded in number and in age: after eviction the reason is
/// `no_session`.
struct Tombstones {
    /// How long the reason for the end of a session is available.
    static let lifetime = Duration.seconds(300)

    private var reasons: BoundedExpiringTable<UInt64, SessionEndReason>

    init(capacity: Int) { reasons = BoundedExpiringTable(capacity: capacity) }

    mutating func add(_ id: UInt64, reason: SessionEndReason, now: SessionTime) {
        reasons.set(id, reason, lifetime: Self.lifetime, now: now)
    }

    /// The reason for the ticket of a missing session.
    func reason(for id: UInt64, now: SessionTime) -> UnauthorizedReason {
        reasons.value(of: id, now: now)?.unauthorizedReason ?? .noSession
    }
}

/// The unreadable records that were reported, so that the audit log has a line for each record and not for each
/// request. Bounded: an evicted record is reported again.
final class ReportedRecordSet: Sendable {
    private let known = Mutex(BoundedExpiringTable<UInt64, Void>(capacity: 4_096))

    /// Whether a record was not reported in the last minutes.
    func isNew(_ id: SessionID, now: SessionTime) -> Bool {
        known.withLock { known in
            guard known.value(of: id.value, now: now) == nil else { return false }
            known.set(id.value, (), lifetime: Tombstones.lifetime, now: now)
            return true
        }
    }
}
