import CloakroomCore
import Synchronization

/// One of the shards of a memory store, which reduce lock contention between event loops.
final class MemorySessionShard: Sendable {
    let contents: Mutex<State>

    init(tombstones: Int) {
        contents = Mutex(State(tombstones: tombstones))
    }
}

/// The sessions of one shard, their next expiry checks, and the reasons why earlier ones ended.
///
/// Keyed by the first word of the key alone, which saves 24 bytes per slot; a session holds its whole key, which is
/// compared. Two sessions with the same first word cannot be stored at the same time: the second draws another ticket.
struct State {
    private var sessions: [UInt64: Session] = [:]
    private var expiries = ExpiryHeap<UInt64>()
    private var tombstones: Tombstones
    /// Leases on existing sessions; most sessions have none.
    private var leases: [UInt64: MemoryLease] = [:]
    /// One counter for the whole shard, so that expired leases need not be kept: the next lease of the same session
    /// still gets a higher number.
    private var latestFence: UInt64 = 0

    init(tombstones: Int) {
        self.tombstones = Tombstones(capacity: tombstones)
    }

    func find(_ key: SessionKey) -> Session? {
        guard let session = sessions[key.word0], session.key == key else { return nil }
        return session
    }

    /// The reason why there is no session with a key.
    func reason(for key: SessionKey, now: SessionTime) -> UnauthorizedReason {
        tombstones.reason(for: key.word0, now: now)
    }

    /// The session with an id, without a check of the key.
    func session(named id: SessionID) -> Session? { sessions[id.value] }

    /// - Returns: `false` if the id is taken.
    mutating func insert(_ session: Session, deadline: SessionTime) -> Bool {
        let id = session.key.word0
        guard sessions[id] == nil else { return false }
        sessions[id] = session
        expiries.push(ExpiryHeap.Entry(deadline: deadline.milliseconds, id: id))
        return true
    }

    /// Records a use with the session object that has replaced the given one, if any.
    func copyTouch(of session: Session) {
        guard let current = sessions[session.key.word0], current !== session, current.key == session.key else { return }
        current.touch(at: session.lastUsedAt, granularity: .zero)
    }

    enum RemovalResult {
        case ended(Session)
        /// The session had already expired.
        case expired(Session, SessionEndReason)
        /// The session does not meet the condition.
        case conditionFailed
        case none
    }

    /// Removes a session.
    /// - Parameter condition: The condition that the session has to meet.
    mutating func end(
        _ id: SessionID, reason: SessionEndReason, timeouts: SessionTimeouts, now: SessionTime,
        if condition: @Sendable (Session, MemoryLease?) -> Bool
    ) -> RemovalResult {
        guard let session = sessions[id.value] else { return .none }
        guard condition(session, leases[id.value]) else { return .conditionFailed }
        if let expiry = expire(session, timeouts: timeouts, now: now) { return .expired(session, expiry) }
        remove(id.value, reason: reason, now: now)
        if expiries.count > 2 * sessions.count + 64 { rebuildExpiries(timeouts) }
        return .ended(session)
    }

    /// Removes a session if it has expired and has not been replaced.
    mutating func expire(_ session: Session, timeouts: SessionTimeouts, now: SessionTime) -> SessionEndReason? {
        guard sessions[session.key.word0] === session,
            let expiry = timeouts.expiry(of: session, now: now)
        else { return nil }
        remove(session.key.word0, reason: expiry, now: now)
        return expiry
    }

    struct SweepResult {
        var examined = 0
        var expired: [(session: Session, expiry: SessionEndReason)] = []
    }

    /// Removes expired sessions, checking `limit` sessions at most.
    mutating func sweep(timeouts: SessionTimeouts, now: SessionTime, limit: Int) -> SweepResult {
        var swept = SweepResult()
        while swept.examined < limit, let entry = expiries.popDue(now: now.milliseconds) {
            swept.examined += 1
            guard let session = sessions[entry.id] else { continue }
            if let expiry = expire(session, timeouts: timeouts, now: now) {
                swept.expired.append((session, expiry))
            } else {
                expiries.push(Self.entry(for: session, timeouts))
            }
        }
        return swept
    }

    private mutating func remove(_ id: UInt64, reason: SessionEndReason, now: SessionTime) {
        sessions[id] = nil
        leases[id] = nil
        tombstones.add(id, reason: reason, now: now)
    }

    /// Entries of ended sessions stay in the heap until their deadline. If most entries are stale, for example because
    /// a client signs in and out in a loop, the heap is rebuilt.
    private mutating func rebuildExpiries(_ timeouts: SessionTimeouts) {
        expiries = ExpiryHeap(sessions.values.map { Self.entry(for: $0, timeouts) })
    }

    private static func entry(for session: Session, _ timeouts: SessionTimeouts) -> ExpiryHeap<UInt64>.Entry {
        ExpiryHeap.Entry(deadline: timeouts.deadline(of: session).milliseconds, id: session.key.word0)
    }
}

/// A lease: the exclusive right to refresh a session's tokens.
struct MemoryLease {
    var fence: UInt64
    /// Others may acquire the lease from this time on. Until they do, its holder may still save.
    var until: SessionTime
}

extension State {
    mutating func lease(
        _ key: SessionKey, for duration: Duration, timeouts: SessionTimeouts, now: SessionTime
    ) -> LeaseResult {
        guard live(key, timeouts: timeouts, now: now) != nil else { return .notFound }
        if let lease = leases[key.word0], RefreshLease.isHeld(until: lease.until, for: duration, now: now) {
            return .heldByOther
        }
        latestFence += 1
        leases[key.word0] = MemoryLease(fence: latestFence, until: now + duration)
        return .acquired(RefreshLease(fence: latestFence))
    }

    mutating func release(_ lease: RefreshLease, of key: SessionKey) {
        guard leases[key.word0]?.fence == lease.fencingToken else { return }
        leases[key.word0] = nil
    }

    mutating func save(
        _ refresh: SessionUpdate, over session: Session, under lease: RefreshLease, timeouts: SessionTimeouts,
        now: SessionTime
    ) -> SaveResult {
        guard let current = live(session.key, timeouts: timeouts, now: now) else { return .notFound }
        guard leases[session.key.word0]?.fence == lease.fencingToken else { return .staleLease }
        guard current.version == session.version else { return .versionConflict }
        let refreshed = current.refreshed(with: refresh, expiresAt: timeouts.end(of: current, refreshedWith: refresh))
        sessions[session.key.word0] = refreshed
        if refreshed.expiresAt < current.expiresAt { expiries.push(Self.entry(for: refreshed, timeouts)) }
        return .saved(refreshed)
    }

    private func live(_ key: SessionKey, timeouts: SessionTimeouts, now: SessionTime) -> Session? {
        guard let session = sessions[key.word0], session.key == key,
            timeouts.expiry(of: session, now: now) == nil
        else { return nil }
        return session
    }
}
