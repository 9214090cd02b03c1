import CloakroomCore
import Synchronization

/// Which records could not be read, so that the audit log has a line for each and not one for each request. Bounded: what
/// has made way is told of again.
final class ReportedRecordSet: Sendable {
    private let known = Mutex(Tombstones(capacity: 4_096))

    /// Whether a record was not told of in the last minutes.
    func isNew(_ id: SessionID, now: Timestamp) -> Bool {
        known.withLock { known in
            guard !known.contains(id.value, now: now) else { return false }
            known.add(id.value, reason: .unreadable, now: now)
            return true
        }
    }
}
