import CloakroomCore

/// Keeps sessions outside the process: sealed in a record store, with a bounded cache of opened sessions.
///
/// A write of this process removes the session from the cache before and after; for writes of other processes the
/// record store reports the change. Only reads insert into the cache, because the store reports changes from a read on.
///
/// Folder `Sealed/`: what all stores outside the process share: sealing, the cache, and the protocol
/// ``SessionRecordStore`` that a new store implements.
final class SealedSessionStore<Records: SessionRecordStore>: SessionStore {
    let records: Records
    let meter: StoreMeter
    let sealing: SessionSealer
    let table: SessionCache
    let touches: PendingTouches
    let timeouts: SessionTimeouts
    /// The longest timeouts of any session.
    let longest: (idle: Duration, absolute: Duration)
    let events: SessionStoreCallbacks
    let recovery: PostOutageGracePeriod
    /// The same for partitions that have accepted no end of a session that seemed idle.
    let unendable: PostOutageGracePeriod
    let withoutCutoff: KnownCutoffs
    let listings = AccountListings()
    private let maxSessions: Int
    let device: DeviceConfiguration
    /// The ids of unreadable records that stay in the store, so that each is reported once.
    let unreadable = ReportedRecordSet()
    let resealed: ResealTracker
    let uncertain = UncertainInserts()

    /// - Parameters:
    ///   - secrets: The secrets that the store's records are sealed under, the newest first.
    init(
        _ records: Records, configuration: SessionConfiguration, secrets: SealingKeyring,
        events: SessionStoreCallbacks = SessionStoreCallbacks(), meter: StoreMeter = StoreMeter()
    ) {
        self.records = records
        self.meter = meter
        sealing = SessionSealer(secrets: secrets)
        resealed = ResealTracker(capacity: configuration.cacheSize)
        table = SessionCache(capacity: configuration.cacheSize, partitions: records.partitionCount)
        recovery = PostOutageGracePeriod(partitions: records.partitionCount)
        unendable = PostOutageGracePeriod(partitions: records.partitionCount)
        withoutCutoff = KnownCutoffs(capacity: configuration.cacheSize)
        touches = PendingTouches(capacity: configuration.cacheSize, partition: records.partition(of:))
        let timeouts = SessionTimeouts(configuration, isShared: true)
        self.timeouts = timeouts
        longest = configuration.apps.map(timeouts.of).reduce((timeouts.idle, timeouts.absolute)) {
            (max($0.0, $1.idle), max($0.1, $1.absolute))
        }
        self.events = events
        maxSessions = configuration.maxSessions
        device = configuration.device
    }

    var count: Int { records.count }
    var changeCount: UInt64 { table.changeCount }

    /// Whether any partition of the store is available, by its last report, and no kind of operation fails.
    var isAvailable: Bool { table.isAvailable && !records.isFailing }

    /// Looks a session up in the cache only. An expired one is read from the store: it may have been used elsewhere, and
    /// its end is stored before it is reported. Otherwise a clock that was ahead and is set back would revive it.
    func lookup(_ ticket: SessionTicket, key known: inout SessionKey?, now: SessionTime, slides: Bool) -> SessionLookup
    {
        let key = known ?? SessionKey(ticket)
        known = key
        if let session = table.session(key), timeouts.expiry(of: session, now: now) == nil {
            if slides, isUseDue(of: session, now: now) { touch(proven: session, at: now) }
            return .active(session)
        }
        if slides { table.recordUse(of: key.id, at: now) }
        return .notCached
    }

    func isUseDue(of session: Session, now: SessionTime) -> Bool {
        timeouts.isTouchDue(of: session, now: now)
    }

    func recordUse(of session: Session, now: SessionTime) {
        if isUseDue(of: session, now: now) { touch(session, at: now) }
    }

    /// Records a use with the ticket alone, which is none of a session that needs the proof of its device.
    func touch(proven session: Session, at use: SessionTime) {
        if session.device == nil || !device.isUsed { touch(session, at: use) }
    }

    /// Records a use, to be written by ``run()``.
    func touch(_ session: Session, at now: SessionTime) {
        let timeouts = timeouts.of(session.terms)
        guard session.touch(at: now, granularity: timeouts.touchGranularity) else { return }
        let keepUntil = timeouts.deadline(expiresAt: session.expiresAt, lastUsedAt: now) + Records.tombstoneLifetime
        touches.note(
            RecordTouch(
                id: session.id, lastUsedAt: now, keepUntil: keepUntil, granularity: timeouts.touchGranularity))
    }

    /// - Throws: ``SessionStoreError`` with the reason `protocolError` if the store reports each id as taken.
    func create(
        _ new: NewSession, limit: Int, now: SessionTime
    ) async throws(SessionStoreError) -> (ticket: SessionTicket, session: Session, mayExceed: Bool) {
        guard records.count < maxSessions else { throw SessionStoreError(.full) }
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<maximumInsertions {
            let ticket = SessionTicket(using: &generator, site: new.site)
            let session = Session(new, key: SessionKey(ticket), timeouts: timeouts, now: now)
            let record = try sealing.seal(session, ticket: ticket)
            guard case .done(let mayExceed) = try await insert(record, limit: limit, now: now) else { continue }
            events.onCreated()
            table.shareRequests(of: session)
            // A record is not entered into the indexes under older secrets.
            return (ticket, session, mayExceed || sealing.secrets.hasOlder)
        }
        throw SessionStoreError(.unavailable, reason: .protocolError)
    }

    /// Inserts a record. If the result is unknown, the record is removed later: its client gets no ticket.
    private func insert(
        _ record: SessionRecord, limit: Int, now: SessionTime
    ) async throws(SessionStoreError) -> RecordInsertResult {
        do throws(SessionStoreError) {
            let keepUntil = keepUntil(record)
            return try await meter.measure(
                .insert, await records.insert(record, limit: limit, keepUntil: keepUntil, now: now))
        } catch {
            // A full store has rejected the record.
            if error.kind == .unavailable { uncertain.note(record.key.id, madeAt: now) }
            throw error
        }
    }

    func end(
        _ ticket: SessionTicket, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Session? {
        let key = SessionKey(ticket)
        defer { table.recordChanged(key.id) }
        let evaluation = try await evaluate(ticket, key, for: .ending, now: now)
        // The holder of the ticket may end the session, even if its record is damaged or this gateway cannot open it.
        // One that the store may have lost must not come back, so the reason is stored without a record. Only then: a
        // client could otherwise fill the store with invented tickets.
        if evaluation.isForeign || evaluation.isUncertain { _ = try await remove(key.id, reason: reason, now: now) }
        guard case .active(let session) = evaluation.lookup,
            let removed = try await remove(key.id, reason: reason, now: now)
        else { return nil }
        // Tokens refreshed in between have to be revoked upstream.
        guard case .opened(let latest, _) = sealing.open(removed, ticket: ticket) else { return session }
        return latest
    }

    /// Removes a record and reports its end.
    /// - Returns: The record; `nil` if there was none.
    func remove(
        _ id: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> SessionRecord? {
        // Also if the result is unknown.
        defer { table.recordChanged(id) }
        let removal = try await meter.measure(
            .remove, await records.remove(id, reason: reason, condition: nil, now: now))
        guard case .removed(let record) = removal else { return nil }
        events.onEnded(reason)
        return record
    }

    /// Saves a changed record.
    func replace(
        _ record: SessionRecord, fence: UInt64?, now: SessionTime
    ) async throws(SessionStoreError) -> RecordUpdateResult {
        let keepUntil = keepUntil(record)
        return try await meter.measure(
            .replace, await records.replace(record, keepUntil: keepUntil, fence: fence, now: now))
    }

    /// The time after which the record is no longer needed to report that its session has expired.
    private func keepUntil(_ record: SessionRecord) -> SessionTime {
        timeouts.of(sealing.terms(of: record)).deadline(expiresAt: record.expiresAt, lastUsedAt: record.lastUsedAt)
            + Records.tombstoneLifetime
    }
}

extension SealedSessionStore {
    func lease(
        _ key: SessionKey, for duration: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> LeaseResult {
        let lease = try await meter.measure(.lease, await records.lease(key.id, for: duration, now: now))
        if lease == .notFound { try await checkEnd(of: key.id, now: now) }
        return lease
    }

    func save(
        _ refresh: SessionUpdate, ticket: SessionTicket, over session: Session, under lease: RefreshLease,
        now: SessionTime
    ) async throws(SessionStoreError) -> SaveResult {
        // The cached session is invalidated whatever the result, also if the result is unknown.
        defer { table.recordChanged(session.id) }
        let refreshed = session.refreshed(with: refresh, expiresAt: timeouts.end(of: session, refreshedWith: refresh))
        let record = try sealing.seal(refreshed, ticket: ticket)
        switch try await replace(record, fence: lease.fencingToken, now: now) {
        case .done:
            // Requests wait for this result, some of which began after the session may have ended by a cutoff.
            return try await isCutOff(saved: record, now: now) ? .notFound : .saved(refreshed)
        case .changed: return .versionConflict
        case .fenced: return .staleLease
        case .notFound:
            // The new tokens must not be given up for a session that comes back.
            try await checkEnd(of: session.id, now: now)
            return .notFound
        }
    }

    func reject(
        _ session: Session, under lease: RefreshLease, now: SessionTime
    ) async throws(SessionStoreError) -> RejectResult {
        defer { table.recordChanged(session.id) }
        let condition = (session.version, lease.fencingToken)
        let removal = try await meter.measure(
            .remove, await records.remove(session.id, reason: .refreshRejected, condition: condition, now: now))
        switch removal {
        case .removed:
            events.onEnded(.refreshRejected)
            return .ended
        case .changed: return .versionConflict
        case .notFound:
            try await checkEnd(of: session.id, now: now)
            return .notFound
        }
    }

    func release(_ lease: RefreshLease, of key: SessionKey) async {
        // A lease that cannot be released expires.
        try? await meter.measure(.release, await records.release(key.id, fence: lease.fencingToken))
    }
}

/// The maximum number of ids that are tried for a new session. Two in succession are never taken by chance: the store
/// then reports what is not the case.
private let maximumInsertions = 3
/// The number of uses per write.
private let touchBatch = 512
/// The number of uses that fail again, after which a pass ends.
private let maxFailedRetries = 8 * touchBatch
/// The maximum duration of the last pass, unless all uses are written.
private let lastPassDuration = Duration.seconds(2)

extension SealedSessionStore {
    /// Runs the record store and writes uses every ``SessionTimeouts/touchWriteInterval``. When its task is cancelled, it
    /// writes the remaining uses, and then stops the store.
    func run() async {
        // A task of its own: if it were cancelled with this one, the store would stop before the last uses are written.
        let keeping = Task { await records.run(self) }
        while !Task.isCancelled {
            await writeTouches()
            await removeUncertain()
            // Only cancellation ends the sleep early, which is not a failure.
            try? await Task.sleep(for: timeouts.touchWriteInterval)
        }
        // A task of its own, for the same reason: operations in a cancelled task may end early.
        await Task {
            await self.writeTouches(isLast: true)
            await self.removeUncertain()
        }.value
        keeping.cancel()
        await keeping.value
    }

    /// Writes the pending uses, in one pass: see ``PendingTouches``. Those that cannot be written are tried again in the
    /// next pass.
    ///
    /// While there are failures, a pass takes no longer than the time between two, and its retries are limited, so that
    /// new uses are written in time, and a store that fails is not flooded.
    /// - Parameter isLast: Whether no other pass follows.
    func writeTouches(isLast: Bool = false) async {
        let end = ContinuousClock.now + (isLast ? lastPassDuration : timeouts.touchWriteInterval)
        var failedRetries = 0
        touches.beginPass()
        while let batch = touches.next(limit: touchBatch) {
            guard !batch.touches.isEmpty else { continue }
            let unwritten = await write(batch.touches)
            touches.finish(batch, unwritten: unwritten.ids)
            // After that: the next look-up must find the recorded time only. Otherwise the next use would be recorded
            // later than an eighth of the idle timeout after it, and the session could end early elsewhere.
            for id in unwritten.superseded { table.recordChanged(id) }
            guard !unwritten.ids.isEmpty else { continue }
            if batch.isRetry { failedRetries += unwritten.ids.count }
            if ContinuousClock.now >= end || !isLast && failedRetries >= maxFailedRetries { return }
        }
    }

    /// Writes uses.
    /// - Returns: Those that were not written.
    private func write(_ uses: [RecordTouch]) async -> UnwrittenTouches {
        do throws(SessionStoreError) {
            let granularity = uses.map(\.granularity).min() ?? timeouts.touchGranularity
            return try await meter.measure(
                .touch, failure: { $0?.error }, await records.touch(uses, granularity: granularity))
                ?? UnwrittenTouches()
        } catch {
            return UnwrittenTouches(ids: Set(uses.map(\.id)), error: error)
        }
    }
}

/// The number of records that are removed at the same time.
private let removalsAtOnce = 64

extension SealedSessionStore {
    /// Removes records whose insertion was not confirmed. No end event is reported, because no creation was.
    ///
    /// Some at once, because each may take the time limit of the store. After failures the others wait for the next call,
    /// so that a store that fails does not delay the writing of uses; those that failed are then the last.
    func removeUncertain(at instant: ContinuousClock.Instant = .now) async {
        var due = uncertain.due(now: instant)[...]
        var areRemoved = true
        while areRemoved, !due.isEmpty {
            let some = due.prefix(removalsAtOnce)
            due = due.dropFirst(some.count)
            areRemoved = await withTaskGroup(of: Bool.self) { group in
                for (id, madeAt) in some {
                    group.addTask { await self.removeUncertain(id, madeAt: madeAt, at: instant) }
                }
                return await group.reduce(true) { $0 && $1 }
            }
        }
    }

    /// - Returns: Whether the store has replied.
    private func removeUncertain(
        _ id: SessionID, madeAt: SessionTime, at instant: ContinuousClock.Instant
    ) async -> Bool {
        let removal = try? await meter.measure(
            .remove, await records.remove(id, reason: .replaced, condition: nil, now: madeAt))
        switch removal {
        case nil:
            uncertain.failed(id, now: instant)
            return false
        case .removed?: uncertain.removed(id)
        case .changed?, .notFound?: uncertain.notFound(id, now: instant)
        }
        return true
    }
}

extension SealedSessionStore: RecordChangeDelegate {
    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        if areTrusted, afterOutage { recovery.begin(partitions) }
        table.partitionsChanged(partitions, areTrusted: areTrusted)
    }

    func partitionsLackWrites(_ partitions: [Range<Int>]) { recovery.begin(partitions) }

    func allowsNewRefreshes(of key: SessionKey) -> Bool { recovery.isOver(records.partition(of: key.id)) }

    func recordChanged(_ id: SessionID) { table.recordChanged(id) }

    func cutoffChanged(_ index: RecordIndex) { table.cutoffChanged(in: records.partition(ofIndex: index)) }

    func allRecordsChanged() { table.allRecordsChanged() }

    func expired(idle: Int, absolute: Int) {
        for _ in 0..<idle { events.onEnded(.expiredIdle) }
        for _ in 0..<absolute { events.onEnded(.expiredAbsolute) }
    }
}
