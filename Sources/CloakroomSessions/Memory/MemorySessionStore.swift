package import CloakroomCore
import Synchronization

/// Keeps sessions in the memory of this process, and loses them at its end. The default for one process.
///
/// All sessions are in memory, so a lookup never returns ``SessionLookup/notCached`` and nothing waits except for a short
/// lock. Only the creation of a session throws, if the limit is reached and no session has expired. Sessions are not
/// sealed: the key would be in the same process. Expired sessions are rejected at once. They are removed on a lookup, by
/// ``sweep(now:limit:)``, or when space is needed.
///
/// Folder `Memory/`: sessions, accounts and throttle counters in this process only.
package final class MemorySessionStore: SessionStore {
    /// A power of two, far larger than the number of event loops.
    private static let shardCount = 64
    private static let tombstonesPerShard = 1_024
    /// The number of sessions checked while a shard's lock is held.
    private static let sweepBatchSize = 64

    private let shards: [MemorySessionShard]
    let accounts = AccountIndex()
    let accountHashes: AccountHasher
    /// The sessions of sessions at providers.
    let providerSessions = AccountIndex()
    let throttle = MemoryThrottle()
    let marks = MemoryMarks()
    let timeouts: SessionTimeouts
    private let maxSessions: Int
    private let clock: @Sendable () -> SessionTime
    private let events: SessionStoreCallbacks
    private let live = Atomic<Int>(0)
    private let ended = Atomic<UInt64>(0)
    private let nextToSweep = Atomic<Int>(0)

    /// Creates an empty store.
    /// - Parameters:
    ///   - configuration: Timeouts and the maximum number of sessions.
    ///   - accountHashes: Hashes account names; a key generated for this process is sufficient.
    ///   - clock: The wall clock of ``run()``.
    package init(
        _ configuration: SessionConfiguration, accountHashes: AccountHasher,
        clock: @escaping @Sendable () -> SessionTime, events: SessionStoreCallbacks = .none
    ) {
        shards = (0..<Self.shardCount).map { _ in MemorySessionShard(tombstones: Self.tombstonesPerShard) }
        timeouts = SessionTimeouts(configuration)
        maxSessions = configuration.maxSessions
        self.accountHashes = accountHashes
        self.clock = clock
        self.events = events
    }

    /// The number of sessions, including expired ones that are not removed yet.
    package var count: Int { live.load(ordering: .relaxed) }

    /// The number of sessions that ended: lookups always show the other changes.
    package var changeCount: UInt64 { ended.load(ordering: .acquiring) }

    package var isAvailable: Bool { true }

    /// Looks a session up, under one short lock. An expired session is removed immediately.
    package func lookup(
        _ ticket: SessionTicket, key known: inout SessionKey?, now: SessionTime, slides: Bool
    ) -> SessionLookup {
        let key = known ?? SessionKey(ticket)
        known = key
        let shard = shard(of: key.id)
        guard let session = shard.contents.withLock({ $0.find(key) }) else {
            return .missing(shard.contents.withLock { $0.reason(for: key, now: now) })
        }
        if let expiry = timeouts.expiry(of: session, now: now) {
            expire(session, now: now)
            return .missing(expiry.unauthorizedReason)
        }
        if slides, timeouts.isTouchDue(of: session, now: now), session.device == nil {
            recordUse(of: session, now: now)
        }
        return .active(session)
    }

    package func recordUse(of session: Session, now: SessionTime) {
        guard session.touch(at: now, granularity: timeouts.of(session.terms).touchGranularity) else { return }
        // A refresh may have replaced the session object since.
        shard(of: session.id).contents.withLock { $0.copyTouch(of: session) }
    }

    /// Whether the last use that was recorded is long enough ago.
    package func isUseDue(of session: Session, now: SessionTime) -> Bool {
        timeouts.isTouchDue(of: session, now: now)
    }

    /// The same as a lookup that does not extend the idle timeout: memory is the only copy.
    package func load(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        lookup(ticket, now: now, slides: false)
    }

    package func create(
        _ new: NewSession, limit: Int, now: SessionTime
    ) async throws(SessionStoreError) -> (ticket: SessionTicket, session: Session, mayExceed: Bool) {
        guard reserveCapacity() || (sweep(now: now) > 0 && reserveCapacity()) else { throw SessionStoreError(.full) }
        var generator = SystemRandomNumberGenerator()
        while true {
            let ticket = SessionTicket(using: &generator, site: new.site)
            let key = SessionKey(ticket)
            let session = Session(new, key: key, timeouts: timeouts, now: now)
            let deadline = timeouts.deadline(of: session)
            let hashes = addToIndexes(session)
            guard shard(of: key.id).contents.withLock({ $0.insert(session, deadline: deadline) }) else {
                removeFromIndexes(session)
                continue
            }
            events.onCreated()
            return (ticket, session, hashes.contains { accounts.count(of: $0) > limit })
        }
    }

    package func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Session? {
        let key = SessionKey(ticket)
        guard case .ended(let session) = end(key.id, reason: reason, now: now, if: { session, _ in session.key == key })
        else { return nil }
        return session
    }

    /// Removes a session that meets a condition, and records why it ended.
    func end(
        _ id: SessionID, reason: SessionEndReason, now: SessionTime,
        if condition: @Sendable (Session, MemoryLease?) -> Bool
    ) -> State.RemovalResult {
        let removal = shard(of: id).contents.withLock {
            $0.end(id, reason: reason, timeouts: timeouts, now: now, if: condition)
        }
        switch removal {
        case .ended(let session): recordEnd(of: session, reason)
        case .expired(let session, let expiry): recordEnd(of: session, expiry)
        case .conditionFailed, .none: break
        }
        return removal
    }

    /// Removes expired sessions every second, until its task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            let now = clock()
            sweep(now: now)
            throttle.sweep(now: now)
            marks.sweep(now: now)
            // Only cancellation ends the sleep early, which is not a failure.
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Removes expired sessions. To be called about once a second.
    /// - Parameter limit: The number of sessions to check; the next call continues after them.
    /// - Returns: The number of removed sessions.
    @discardableResult
    func sweep(now: SessionTime, limit: Int = 16_384) -> Int {
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
                let step = min(Self.sweepBatchSize, remaining)
                let swept = shards[index].contents.withLock { $0.sweep(timeouts: timeouts, now: now, limit: step) }
                for (session, expiry) in swept.expired { recordEnd(of: session, expiry) }
                cleared += swept.expired.count
                remaining -= swept.examined
                if swept.examined < step { break }
            }
        }
        return cleared
    }

    func shard(of id: SessionID) -> MemorySessionShard {
        shards[Int(truncatingIfNeeded: id.value) & (Self.shardCount - 1)]
    }

    private func expire(_ session: Session, now: SessionTime) {
        let expiry = shard(of: session.id).contents.withLock { $0.expire(session, timeouts: timeouts, now: now) }
        if let expiry { recordEnd(of: session, expiry) }
    }

    /// Reserves capacity before the session is created, so that concurrent sign-ins never exceed the limit.
    private func reserveCapacity() -> Bool {
        var count = live.load(ordering: .relaxed)
        while count < maxSessions {
            let (exchanged, original) = live.weakCompareExchange(
                expected: count, desired: count + 1, ordering: .relaxed)
            if exchanged { return true }
            count = original
        }
        return false
    }

    /// The hashes that index a user's sessions: the account's, and the typed name's if it differs.
    func hashes(of user: UserProfile) -> [UInt64] {
        let account = accountHashes.hash(user.account)
        return user.name == user.account ? [account] : [account, accountHashes.hash(user.name)]
    }

    /// - Returns: The hashes that index the sessions of its user.
    private func addToIndexes(_ session: Session) -> [UInt64] {
        let hashes = hashes(of: session.user)
        for hash in hashes { accounts.add(session.id, to: hash) }
        if let provider = session.provenance?.session {
            providerSessions.add(session.id, to: accountHashes.hash(provider))
        }
        return hashes
    }

    private func removeFromIndexes(_ session: Session) {
        for hash in hashes(of: session.user) { accounts.remove(session.id, from: hash) }
        if let provider = session.provenance?.session {
            providerSessions.remove(session.id, from: accountHashes.hash(provider))
        }
    }

    private func recordEnd(of session: Session, _ reason: SessionEndReason) {
        removeFromIndexes(session)
        live.subtract(1, ordering: .relaxed)
        ended.wrappingAdd(1, ordering: .releasing)
        events.onEnded(reason)
    }
}

extension MemorySessionStore {
    package func lease(
        _ key: SessionKey, for duration: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> LeaseResult {
        shard(of: key.id).contents.withLock { $0.lease(key, for: duration, timeouts: timeouts, now: now) }
    }

    /// A save may move the end of the session closer, but never further away.
    package func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: SessionTime
    ) async throws(SessionStoreError) -> SaveResult {
        let former = session.provenance?.session
        let latter = refresh.provenance.map(\.session) ?? former
        // The index has the session under both hashes while it is unknown which of them is right.
        if latter != former, let latter { providerSessions.add(session.id, to: accountHashes.hash(latter)) }
        let result = shard(of: session.id).contents.withLock {
            $0.save(refresh, over: session, under: lease, timeouts: timeouts, now: now)
        }
        let outdated = if case .saved = result { former } else { latter }
        if latter != former, let outdated { providerSessions.remove(session.id, from: accountHashes.hash(outdated)) }
        return result
    }

    package func reject(
        _ session: Session, under lease: RefreshLease, now: SessionTime
    ) async throws(SessionStoreError) -> RejectResult {
        let key = session.key
        let version = session.version
        let removal = end(key.id, reason: .refreshRejected, now: now) { current, held in
            current.key == key && current.version == version && held?.fence == lease.fencingToken
        }
        return switch removal {
        case .ended: .ended
        case .conditionFailed: .versionConflict
        case .expired, .none: .notFound
        }
    }

    package func release(_ lease: RefreshLease, of key: SessionKey) async {
        shard(of: key.id).contents.withLock { $0.release(lease, of: key) }
    }

    /// The same as a lookup that does not extend the idle timeout: memory is the only copy.
    package func reload(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        lookup(ticket, now: now, slides: false)
    }
}
