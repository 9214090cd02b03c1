import CloakroomCore
import Synchronization

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
