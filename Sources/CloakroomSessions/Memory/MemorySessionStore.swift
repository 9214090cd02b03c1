public import CloakroomCore
import Synchronization

/// Keeps sessions in this process: they are gone when it ends. The default for one process.
///
/// Every session is at hand, so a look never answers ``SessionLookup/unknown`` and nothing here waits but for a short
/// lock. Sessions are not sealed: the key would lie beside the lock. Expired sessions are refused at once, and cleared
/// away when somebody looks for them, by ``sweep(now:limit:)``, or when room is needed.
public final class MemorySessionStore: SessionStore {
    /// A power of two, and many more than there are event loops.
    private static let shardCount = 64
    private static let tombstonesPerShard = 1_024
    /// How many sessions are looked at while a shard's lock is held.
    private static let sweepStep = 64

    private let shards: [MemorySessionShard]
    private let timeouts: SessionTimeouts
    private let maxSessions: Int
    private let logKey: KeyedHash
    private let onCreated: @Sendable () -> Void
    private let onEnded: @Sendable (SessionEndReason) -> Void
    private let live = Atomic<Int>(0)
    private let nextToSweep = Atomic<Int>(0)

    /// Makes an empty store.
    /// - Parameters:
    ///   - plan: Timeouts and the bound on sessions.
    ///   - logKey: The key of ``Session/logHash``.
    ///   - onCreated: Called once for each new session, on whatever thread made it. Must not wait.
    ///   - onEnded: Called once for each session that ended, on whatever thread found out. Must not wait.
    public init(
        _ plan: SessionPlan, logKey: KeyedHash, onCreated: @escaping @Sendable () -> Void = {},
        onEnded: @escaping @Sendable (SessionEndReason) -> Void = { _ in }
    ) {
        shards = (0..<Self.shardCount).map { _ in MemorySessionShard(tombstones: Self.tombstonesPerShard) }
        timeouts = SessionTimeouts(plan)
        maxSessions = plan.maxSessions
        self.logKey = logKey
        self.onCreated = onCreated
        self.onEnded = onEnded
    }

    /// How many sessions there are, expired ones that were not cleared away yet included.
    public var count: Int { live.load(ordering: .relaxed) }

    /// Looks a session up, under one short lock. One that is found to be over is taken out on the spot.
    public func find(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup {
        var key: SessionKey?
        return find(ticket, key: &key, now: now, slides: slides)
    }

    /// Hashes the ticket unless its key is at hand.
    public func find(
        _ ticket: SessionTicket, key known: inout SessionKey?, now: Timestamp, slides: Bool
    ) -> SessionLookup {
        let key = known ?? SessionKey(ticket)
        known = key
        let session: Session
        switch shard(of: key).contents.withLock({ $0.find(key, now: now) }) {
        case .session(let found): session = found
        case .none(let reason): return .none(reason)
        }
        let lastUsedAt = session.lastUsedAt
        if let expiry = timeouts.expiry(expiresAt: session.expiresAt, lastUsedAt: lastUsedAt, now: now) {
            expire(key, now: now)
            return .none(expiry.endReason.unauthorizedReason)
        }
        if slides, timeouts.isTouchDue(lastUsedAt: lastUsedAt, now: now) {
            session.touch(at: now, granularity: timeouts.touchGranularity)
        }
        return .live(session)
    }

    /// The same as a look that does not slide: there is nowhere else to look.
    public func load(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        find(ticket, now: now, slides: false)
    }

    /// Keeps a new session under a new ticket.
    /// - Throws: ``SessionStoreError`` of kind `full` when the bound is reached and no session has expired.
    public func create(
        _ user: UserProfile, tokens: SessionTokens, now: Timestamp
    ) async throws(SessionStoreError) -> (SessionTicket, Session) {
        guard reserve() || (sweep(now: now) > 0 && reserve()) else { throw SessionStoreError(.full) }
        var generator = SystemRandomNumberGenerator()
        while true {
            let ticket = SessionTicket(using: &generator)
            let key = SessionKey(ticket)
            let session = Session(
                key: key, user: user, tokens: tokens, createdAt: now, expiresAt: timeouts.end(ofSessionMadeAt: now),
                lastUsedAt: now, logHash: logKey.hash(key))
            let deadline = timeouts.deadline(expiresAt: session.expiresAt, lastUsedAt: now)
            guard shard(of: key).contents.withLock({ $0.insert(session, deadline: deadline) }) else { continue }
            onCreated()
            return (ticket, session)
        }
    }

    /// Ends a session; never throws.
    public func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Session? {
        let key = SessionKey(ticket)
        switch shard(of: key).contents.withLock({ $0.end(key, reason: reason, timeouts: timeouts, now: now) }) {
        case .ended(let session):
            noteEnd(reason)
            return session
        case .expired(let expiry):
            noteEnd(expiry.endReason)
            return nil
        case .none:
            return nil
        }
    }

    /// Clears expired sessions away. To be called about once a second.
    /// - Parameter limit: How many sessions are looked at; the next call goes on where this one stopped.
    /// - Returns: How many were cleared away.
    @discardableResult
    public func sweep(now: Timestamp, limit: Int = 16_384) -> Int {
        let start = nextToSweep.load(ordering: .relaxed)
        var remaining = limit
        var cleared = 0
        for offset in 0..<Self.shardCount {
            let index = (start &+ offset) & (Self.shardCount - 1)
            while true {
                guard remaining > 0 else {
                    nextToSweep.store(index, ordering: .relaxed)
                    return cleared
                }
                let step = min(Self.sweepStep, remaining)
                let swept = shards[index].contents.withLock { $0.sweep(timeouts: timeouts, now: now, limit: step) }
                for _ in 0..<swept.idle { noteEnd(.expiredIdle) }
                for _ in 0..<swept.absolute { noteEnd(.expiredAbsolute) }
                cleared += swept.idle + swept.absolute
                remaining -= swept.examined
                if swept.examined < step { break }
            }
        }
        return cleared
    }

    private func shard(of key: SessionKey) -> MemorySessionShard {
        shards[Int(truncatingIfNeeded: key.word0) & (Self.shardCount - 1)]
    }

    private func expire(_ key: SessionKey, now: Timestamp) {
        guard let expiry = shard(of: key).contents.withLock({ $0.expire(key, timeouts: timeouts, now: now) }) else {
            return
        }
        noteEnd(expiry.endReason)
    }

    /// Takes a place before the session is made, so that there are never more than the bound, however many sign in at once.
    private func reserve() -> Bool {
        var count = live.load(ordering: .relaxed)
        while count < maxSessions {
            let (exchanged, original) = live.weakCompareExchange(
                expected: count, desired: count + 1, ordering: .relaxed)
            if exchanged { return true }
            count = original
        }
        return false
    }

    private func noteEnd(_ reason: SessionEndReason) {
        live.subtract(1, ordering: .relaxed)
        onEnded(reason)
    }
}
