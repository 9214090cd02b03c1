import CloakroomCore
import Synchronization

/// One of the parts that a memory store is divided into, so that event loops seldom wait for each other.
final class MemorySessionShard: Sendable {
    let contents: Mutex<ShardContents>

    init(tombstones: Int) {
        contents = Mutex(ShardContents(tombstones: tombstones))
    }
}

/// The sessions of one shard, when to look at them next, and why the ones before them ended.
///
/// Kept under the first word of the key alone, which saves 24 bytes a slot; a session knows its whole key, and that is
/// compared. Two sessions whose keys begin alike cannot be kept at the same time: the second draws another ticket.
struct ShardContents {
    private var sessions: [UInt64: Session] = [:]
    private var expiries = ExpiryHeap()
    private var tombstones: Tombstones

    init(tombstones: Int) {
        self.tombstones = Tombstones(capacity: tombstones)
    }

    /// A session, or why there is none.
    enum Found {
        case session(Session)
        case none(UnauthorizedReason)
    }

    func find(_ key: SessionKey, now: Timestamp) -> Found {
        if let session = sessions[key.word0], session.key == key { return .session(session) }
        return .none(tombstones.reason(for: key.word0, now: now))
    }

    /// - Returns: Whether there was room for the name.
    mutating func insert(_ session: Session, deadline: Timestamp) -> Bool {
        let id = session.key.word0
        guard sessions[id] == nil else { return false }
        sessions[id] = session
        expiries.push(ExpiryHeap.Entry(deadline: deadline.milliseconds, id: id))
        return true
    }

    /// What came of taking a session out.
    enum Removal {
        case ended(Session)
        /// It was over before it could be ended.
        case expired(SessionExpiry)
        case none
    }

    mutating func end(
        _ key: SessionKey, reason: SessionEndReason, timeouts: SessionTimeouts, now: Timestamp
    ) -> Removal {
        guard let session = sessions[key.word0], session.key == key else { return .none }
        if let expiry = expire(key, timeouts: timeouts, now: now) { return .expired(expiry) }
        remove(key.word0, reason: reason, now: now)
        if expiries.count > 2 * sessions.count + 64 { rebuildExpiries(timeouts) }
        return .ended(session)
    }

    /// Takes a session out if it is over.
    mutating func expire(_ key: SessionKey, timeouts: SessionTimeouts, now: Timestamp) -> SessionExpiry? {
        guard let session = sessions[key.word0], session.key == key,
            let expiry = timeouts.expiry(expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt, now: now)
        else { return nil }
        remove(key.word0, reason: expiry.endReason, now: now)
        return expiry
    }

    /// What one step of a sweep did.
    struct Swept {
        var examined = 0
        var idle = 0
        var absolute = 0
    }

    /// Takes out what is over, looking at `limit` sessions at most.
    mutating func sweep(timeouts: SessionTimeouts, now: Timestamp, limit: Int) -> Swept {
        var swept = Swept()
        while swept.examined < limit, let entry = expiries.popDue(now: now.milliseconds) {
            swept.examined += 1
            guard let session = sessions[entry.id] else { continue }
            switch expire(session.key, timeouts: timeouts, now: now) {
            case .idle: swept.idle += 1
            case .absolute: swept.absolute += 1
            case nil: expiries.push(Self.entry(for: session, timeouts))
            }
        }
        return swept
    }

    private mutating func remove(_ id: UInt64, reason: SessionEndReason, now: Timestamp) {
        sessions[id] = nil
        tombstones.add(id, reason: reason, now: now)
    }

    /// Sessions that were ended leave their entries behind until these fall due. When most entries are such, as when
    /// somebody signs in and out in a loop, they are cleared away.
    private mutating func rebuildExpiries(_ timeouts: SessionTimeouts) {
        expiries = ExpiryHeap(sessions.values.map { Self.entry(for: $0, timeouts) })
    }

    private static func entry(for session: Session, _ timeouts: SessionTimeouts) -> ExpiryHeap.Entry {
        let deadline = timeouts.deadline(expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt)
        return ExpiryHeap.Entry(deadline: deadline.milliseconds, id: session.key.word0)
    }
}
