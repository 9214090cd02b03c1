import CloakroomCore

/// Keeps sessions outside the process: sealed in a record store, opened in a bounded table at hand.
///
/// The table is a copy. What this process writes, it strikes out of the table first and last; what others write, the
/// record store tells. A session gets into the table by being read only, for it is from a read on that the store tells
/// of changes.
final class SealedSessionStore<Records: SessionRecordStore>: SessionStore {
    let records: Records
    let sealing: SessionSealer
    let table: SessionCache
    let touches: PendingTouches
    let timeouts: SessionTimeouts
    let events: SessionStoreCallbacks
    let recovery = PostOutageGracePeriod()
    private let maxSessions: Int
    /// Names of records that could not be read and stay where they are, so that each is told of once.
    let unreadable = ReportedRecordSet()
    let resealed: ResealTracker
    let uncertain = UncertainInserts()

    /// - Parameters:
    ///   - secrets: Those that the store's records are sealed under, the newest first.
    ///   - unsourced: The source of sessions in records of format 1, which name none.
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

    /// Whether the link to the store stands, as the store told last.
    var isAvailable: Bool { table.isCoherent }

    func lookup(_ ticket: SessionTicket, now: Timestamp, slides: Bool) -> SessionLookup {
        var key: SessionKey?
        return lookup(ticket, key: &key, now: now, slides: slides)
    }

    /// Looks at hand only. A session that looks unused for too long may have been used elsewhere, so only the store can
    /// tell; one that has reached its end is over everywhere.
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
                // The record is taken out, and its end told, by whoever loads it or clears it away.
                return .missing(.expiredAbsolute)
            case .idle?, .absolute?:
                break
            }
        }
        if slides { table.recordUse(of: key.id, at: now) }
        return .notCached
    }

    /// Notes a use, to be written by ``run()``.
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

    /// Inserts a record. One of which it is not known whether it was inserted is taken out later: its client gets no
    /// ticket.
    private func insert(_ record: SessionRecord, now: Timestamp) async throws(SessionStoreError) -> Bool {
        do throws(SessionStoreError) {
            return try await records.insert(record, keepUntil: keepUntil(record.expiresAt, now), now: now)
        } catch {
            // A store that is full has refused it.
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
        // Whoever has the ticket may end the session, even here where nobody can open it.
        if judged.isForeign { _ = try await remove(key.id, reason: reason, now: now) }
        guard case .active(let session) = judged.lookup,
            let removed = try await remove(key.id, reason: reason, now: now)
        else { return nil }
        // Whatever was renewed in between is what has to be made void upstream.
        guard case .opened(let latest, _) = sealing.open(removed, ticket: ticket) else { return session }
        return latest
    }

    /// Takes a record out and tells of it.
    /// - Returns: The record; `nil` if there was none any more.
    func remove(
        _ id: SessionID, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> SessionRecord? {
        // Also when it is not known whether it was done.
        defer { table.recordChanged(id) }
        guard case .removed(let record) = try await records.remove(id, reason: reason, condition: nil, now: now) else {
            return nil
        }
        events.onEnded(reason)
        return record
    }

    /// A record may be forgotten once nobody has to be told any more that its session is over.
    func keepUntil(_ expiresAt: Timestamp, _ lastUsedAt: Timestamp) -> Timestamp {
        timeouts.deadline(expiresAt: expiresAt, lastUsedAt: lastUsedAt) + Records.tombstoneLifetime
    }
}
