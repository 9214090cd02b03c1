import CloakroomCore

/// Keeps sessions outside the process: sealed in a record store, with a bounded cache of opened sessions.
///
/// A write of this process removes the session from the cache before and after; for writes of other processes the
/// record store reports the change. Only reads insert into the cache, because the store reports changes from a read on.
final class SealedSessionStore<Records: SessionRecordStore>: SessionStore {
    let records: Records
    let sealing: SessionSealer
    let table: SessionCache
    let touches: PendingTouches
    let timeouts: SessionTimeouts
    let events: SessionStoreCallbacks
    let recovery = PostOutageGracePeriod()
    private let maxSessions: Int
    /// The ids of unreadable records that stay in the store, so that each is reported once.
    let unreadable = ReportedRecordSet()
    let resealed: ResealTracker
    let uncertain = UncertainInserts()

    /// - Parameters:
    ///   - secrets: The secrets that the store's records are sealed under, the newest first.
    ///   - unsourced: The source of sessions in records of format 1, which have none.
    init(
        _ records: Records, configuration: SessionConfiguration, secrets: SealingKeyring,
        unsourced: SessionSource = .unknown,
        events: SessionStoreCallbacks = SessionStoreCallbacks()
    ) {
        self.records = records
        sealing = SessionSealer(secrets: secrets, unsourced: unsourced)
        resealed = ResealTracker(capacity: configuration.localSessions)
        table = SessionCache(capacity: configuration.localSessions)
        touches = PendingTouches(capacity: configuration.localSessions)
        timeouts = SessionTimeouts(configuration)
        self.events = events
        maxSessions = configuration.maxSessions
    }

    var count: Int { records.count }

    /// Whether the connection to the store is established, by its last report.
    var isAvailable: Bool { table.isCoherent }

    func lookup(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup {
        var key: SessionKey?
        return lookup(ticket, key: &key, now: now, slides: slides)
    }

    /// Looks a session up in the cache only. A session that seems idle for too long may have been used elsewhere, which
    /// only the store knows; a session past its absolute end has expired everywhere.
    func lookup(_ ticket: SessionTicket, key known: inout SessionKey?, now: Timestamp, slides: Bool) -> SessionLookup {
        let key = known ?? SessionKey(ticket)
        known = key
        if let session = table.session(key) {
            let lastUsedAt = session.lastUsedAt
            switch timeouts.expiry(expiresAt: session.expiresAt, lastUsedAt: lastUsedAt, now: now) {
            case nil:
                if slides, timeouts.isTouchDue(lastUsedAt: lastUsedAt, now: now) { touch(session, at: now) }
                return .active(session)
            case .absolute? where now >= session.expiresAt:
                // The record is removed, and its end reported, when it is loaded or swept.
                return .missing(.expiredAbsolute)
            case .idle?, .absolute?:
                break
            }
        }
        if slides { table.recordUse(of: key.id, at: now) }
        return .notCached
    }

    /// Records a use, to be written by ``run()``.
    func touch(_ session: Session, at now: Timestamp) {
        guard session.touch(at: now, granularity: timeouts.touchGranularity) else { return }
        touches.note(RecordTouch(id: session.id, lastUsedAt: now, keepUntil: keepUntil(session.expiresAt, now)))
    }

    func create(_ new: NewSession, now: Timestamp) async throws(SessionStoreError) -> (SessionTicket, Session) {
        guard records.count < maxSessions else { throw SessionStoreError(.full) }
        var generator = SystemRandomNumberGenerator()
        while true {
            let ticket = SessionTicket(using: &generator)
            let session = Session(
                key: SessionKey(ticket), user: new.user, tokens: new.tokens, client: new.client, source: new.source,
                createdAt: now, expiresAt: timeouts.end(ofSessionMadeAt: now, tokens: new.tokens), lastUsedAt: now)
            let record = try sealing.seal(session, ticket: ticket)
            guard try await insert(record, now: now) else { continue }
            events.onCreated()
            return (ticket, session)
        }
    }

    /// Inserts a record. If the result is unknown, the record is removed later: its client gets no ticket.
    private func insert(_ record: SessionRecord, now: Timestamp) async throws(SessionStoreError) -> Bool {
        do throws(SessionStoreError) {
            return try await records.insert(record, keepUntil: keepUntil(record.expiresAt, now), now: now)
        } catch {
            // A full store has rejected the record.
            if error.kind == .unavailable { uncertain.note(record.key.id, madeAt: now) }
            throw error
        }
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Session? {
        let key = SessionKey(ticket)
        defer { table.recordChanged(key.id) }
        let judged = try await evaluate(ticket, key, now: now)
        // The holder of the ticket may end the session, even if this gateway cannot open it.
        if judged.isForeign { _ = try await remove(key.id, reason: reason, now: now) }
        guard case .active(let session) = judged.lookup,
            let removed = try await remove(key.id, reason: reason, now: now)
        else { return nil }
        // Tokens refreshed in between have to be revoked upstream.
        guard case .opened(let latest, _) = sealing.open(removed, ticket: ticket) else { return session }
        return latest
    }

    /// Removes a record and reports its end.
    /// - Returns: The record; `nil` if there was none.
    func remove(
        _ id: SessionID, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> SessionRecord? {
        // Also if the result is unknown.
        defer { table.recordChanged(id) }
        guard case .removed(let record) = try await records.remove(id, reason: reason, condition: nil, now: now) else {
            return nil
        }
        events.onEnded(reason)
        return record
    }

    /// The time after which the record is no longer needed to report that its session has expired.
    func keepUntil(_ expiresAt: Timestamp, _ lastUsedAt: Timestamp) -> Timestamp {
        timeouts.deadline(expiresAt: expiresAt, lastUsedAt: lastUsedAt) + Records.tombstoneLifetime
    }
}
