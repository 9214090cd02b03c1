import CloakroomCore

extension SealedSessionStore {
    /// Reads a session that is not cached. Concurrent requests for the same session share one read.
    func load(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        let key = SessionKey(ticket)
        // Another request may have loaded the session since the lookup.
        if let session = table.session(key), timeouts.expiry(of: session, now: now) == nil {
            if let use = table.consumeUse(of: key.id) { touch(proven: session, at: use) }
            return .active(session)
        }
        let pending = table.pendingRead(of: key, in: records.partition(of: key.id)) { read in
            Task { await self.read(ticket, key, read, now: now) }
        }
        return try await pending.value.get()
    }

    /// Reads a session without joining a pending read, which may not include the latest writes.
    func reload(_ ticket: SessionTicket, now: SessionTime) async throws(SessionStoreError) -> SessionLookup {
        let key = SessionKey(ticket)
        return try await read(ticket, key, table.begin(key, in: records.partition(of: key.id)), now: now).get()
    }

    private func read(
        _ ticket: SessionTicket, _ key: SessionKey, _ read: SessionCache.ReadRegistration, now: SessionTime
    ) async -> Result<SessionLookup, SessionStoreError> {
        do throws(SessionStoreError) {
            let evaluation = try await evaluate(ticket, key, for: .use(read), now: now)
            let entry = evaluation.kept.flatMap { session in
                evaluation.stamp.map { SessionCache.Entry(session: session, stamp: $0) }
            }
            let use = table.finish(read, with: entry)
            if let use, case .active(let session) = evaluation.lookup { touch(proven: session, at: use) }
            return .success(evaluation.lookup)
        } catch {
            table.finish(read, with: nil)
            return .failure(error)
        }
    }

    func readRecord(_ id: SessionID, now: SessionTime) async throws(SessionStoreError) -> RecordLookup {
        try await meter.measure(.read, await records.read(id, now: now))
    }

    /// The result of evaluating a record.
    struct RecordEvaluation {
        var lookup: SessionLookup
        /// The session to cache, if the store will report changes to it.
        var kept: Session?
        /// What the session was read from; `nil` if it may not be cached.
        var stamp: TrustStamp?
        /// Whether there is a record that cannot be opened here, and that may be valid.
        var isForeign = false
        /// Whether there is no record, and the store may have lost it.
        var isUncertain = false
    }

    /// Why a record is read.
    enum Purpose {
        /// To use the session, and to cache it.
        case use(SessionCache.ReadRegistration)
        /// To end the session.
        case ending

        var isUse: Bool { if case .use = self { true } else { false } }
    }

    /// Reads a record, opens it, and checks whether the session is still valid; an expired one is removed, and one that a
    /// cutoff has ended.
    /// - Throws: If the store is unavailable, or returns what is no record: that is no proof that the session has ended.
    func evaluate(
        _ ticket: SessionTicket, _ key: SessionKey, for purpose: Purpose, now: SessionTime
    ) async throws(SessionStoreError) -> RecordEvaluation {
        switch try await readRecord(key.id, now: now) {
        case .none:
            let isUncertain = mayHaveLost(key.id)
            if isUncertain, case .use = purpose { throw SessionStoreError(.unavailable) }
            return RecordEvaluation(lookup: .missing(.noSession), isUncertain: isUncertain)
        case .ended(let reason):
            return RecordEvaluation(lookup: .missing(reason.unauthorizedReason))
        case .unreadable:
            reportUnreadable(key.id, now: now)
            if purpose.isUse { throw unusableReply() }
            return RecordEvaluation(lookup: .missing(.noSession), isForeign: true)
        case .record(var record):
            // The record of another session whose key has the same first word.
            guard record.key == key else { return RecordEvaluation(lookup: .missing(.noSession)) }
            if let expiry = expiry(of: record, now: now) {
                return try await deleteExpired(record, expiry, for: purpose, now: now)
            }
            var stamp: TrustStamp?
            switch purpose {
            case .use(let read):
                // Before the cutoffs are read.
                stamp = table.trust.stamp(
                    record: read.partition, word: read.word, indexes: record.indexes.map(records.partition(ofIndex:)))
                do throws(SessionStoreError) {
                    if try await isCutOff(record, now: now) { return await deleteCutOff(record, now: now) }
                } catch {
                    // The session is neither alive nor ended.
                    recordUse(of: record, ticket: ticket, now: now)
                    throw error
                }
            case .ending:
                // A session that was ended already may be ended again if that is unknown.
                if let isEnded = try? await isCutOff(record, now: now), isEnded {
                    return await deleteCutOff(record, now: now)
                }
            }
            record.lastUsedAt = lastUse(of: record, now: now)
            var evaluation = try await open(record, ticket: ticket, for: purpose, now: now)
            evaluation.stamp = stamp
            return evaluation
        }
    }

    /// Removes a record whose session has expired. If it is not removed now, it is removed later.
    /// - Throws: If a session that seems idle cannot be ended: a store that accepts no end may have accepted no use either,
    ///   so another gateway may serve it. That gateway writes its uses when the store accepts writes again, and until then
    ///   the session is not ended for that reason.
    private func deleteExpired(
        _ record: SessionRecord, _ expiry: SessionEndReason, for purpose: Purpose, now: SessionTime
    ) async throws(SessionStoreError) -> RecordEvaluation {
        let id = record.key.id
        let partition = records.partition(of: id)
        let mayBeInUse = expiry == .expiredIdle && now < record.expiresAt
        if mayBeInUse, case .use = purpose, !unendable.isOver(partition) { throw SessionStoreError(.unavailable) }
        do throws(SessionStoreError) {
            _ = try await remove(id, reason: expiry, now: now)
        } catch {
            if mayBeInUse {
                unendable.begin([partition..<(partition + 1)])
                throw error
            }
        }
        return RecordEvaluation(lookup: .missing(expiry.unauthorizedReason))
    }

    /// Records the use of a session whose cutoffs cannot be read: while the store is unavailable in part, a session that
    /// is used must not become idle.
    private func recordUse(of record: SessionRecord, ticket: SessionTicket, now: SessionTime) {
        guard let use = table.consumeUse(of: record.key.id) else { return }
        var record = record
        record.lastUsedAt = lastUse(of: record, now: now)
        if case .opened(let session, _) = sealing.open(record, ticket: ticket) { touch(proven: session, at: use) }
    }

    /// Whether a record that is missing may have been lost by the store, and may be written again soon.
    ///
    /// A server that has replaced another one lacks the writes that had not reached it. The gateway that made such a
    /// write repeats it as soon as it is connected, and until then other gateways find nothing. So for some time after an
    /// outage, and while the partition is not trusted, only the reason for an end or a cutoff proves that a session has
    /// ended.
    func mayHaveLost(_ id: SessionID) -> Bool {
        let partition = records.partition(of: id)
        // The period begins before the partition is trusted.
        return table.trust.word(partition) % 2 == 0 || !recovery.isOver(partition)
    }

    /// Confirms the end of a session whose record was not found, or that it has a record again.
    /// - Throws: If the store may have lost the record: then it is unknown.
    func checkEnd(of id: SessionID, now: SessionTime) async throws(SessionStoreError) {
        guard mayHaveLost(id), case .none = try await readRecord(id, now: now) else { return }
        throw SessionStoreError(.unavailable)
    }

    /// Removes a record whose session a cutoff has ended. If the store cannot be reached, the record stays, and the next
    /// load finds the same cutoff.
    private func deleteCutOff(_ record: SessionRecord, now: SessionTime) async -> RecordEvaluation {
        _ = try? await remove(record.key.id, reason: .revoked, now: now)
        return RecordEvaluation(lookup: .missing(SessionEndReason.revoked.unauthorizedReason))
    }

    private func open(
        _ record: SessionRecord, ticket: SessionTicket, for purpose: Purpose, now: SessionTime
    ) async throws(SessionStoreError) -> RecordEvaluation {
        let opened = sealing.open(record, ticket: ticket)
        if case .opened(let session, _) = opened { table.shareRequests(of: session) }
        switch opened {
        case .unreadable where purpose.isUse:
            try await deleteDamaged(record, now: now)
            return RecordEvaluation(lookup: .missing(.noSession))
        case .unreadable, .foreign:
            // Another gateway may know the secret: while the secrets of gateways are changed one after the other, no
            // session may be lost because a gateway with the wrong secret read it. So the record stays.
            reportUnreadable(record.key.id, now: now)
            return RecordEvaluation(lookup: .missing(.noSession), isForeign: true)
        case .opened(let session, _) where purpose.isUse && session.terms?.device == .required && !device.isUsed:
            // Of an app that was removed. Nothing here checks the proofs that the session was created for.
            return RecordEvaluation(lookup: .missing(.unproven))
        case .opened(let session, isCurrent: true):
            return RecordEvaluation(lookup: .active(session), kept: session)
        case .opened(let session, isCurrent: false):
            guard resealed.admit(session.id, now: now) else {
                return RecordEvaluation(lookup: .active(session), kept: session)
            }
            return await seal(session, ticket: ticket, now: now)
        }
    }

    /// Reseals a session that is sealed under an older secret. A failure is harmless: a later read tries again, and a
    /// refresh reseals in any case.
    private func seal(_ session: Session, ticket: SessionTicket, now: SessionTime) async -> RecordEvaluation {
        let next = session.refreshed(with: SessionUpdate())
        guard let record = try? sealing.seal(next, ticket: ticket) else {
            return RecordEvaluation(lookup: .active(session), kept: session)
        }
        // A reader must not block a refresh: without a fence the write yields to any lease.
        let change = try? await replace(record, fence: nil, now: now)
        switch change {
        case .done?:
            table.recordChanged(session.id)
            return RecordEvaluation(lookup: .active(next))
        case .fenced?:
            return RecordEvaluation(lookup: .active(session), kept: session)
        case .changed?, .notFound?, nil:
            // The data read is stale, or may be; the next lookup reads again.
            table.recordChanged(session.id)
            return RecordEvaluation(lookup: .active(session))
        }
    }

    /// Removes a record that its ticket and a known secret do not open, and reports it.
    /// - Throws: If the store does not return the same record again: one damaged reply must not end a session.
    private func deleteDamaged(_ record: SessionRecord, now: SessionTime) async throws(SessionStoreError) {
        let id = record.key.id
        reportUnreadable(id, now: now)
        guard case .record(var again) = try await readRecord(id, now: now) else { throw unusableReply() }
        again.lastUsedAt = record.lastUsedAt
        guard again == record else { throw unusableReply() }
        _ = try? await remove(id, reason: .unreadable, now: now)
    }

    private func reportUnreadable(_ id: SessionID, now: SessionTime) {
        if unreadable.isNew(id, now: now) { events.onUnreadable(id) }
    }

    /// The store has responded with what is no valid record: the session is neither accepted nor ended.
    private func unusableReply() -> SessionStoreError {
        events.onFailure(.protocolError)
        return SessionStoreError(.unavailable, reason: .protocolError)
    }

    /// Whether and how a record's session has expired, including uses that are not written yet.
    func expiry(of record: SessionRecord, now: SessionTime) -> SessionEndReason? {
        timeouts.of(sealing.terms(of: record)).expiry(
            expiresAt: record.expiresAt, lastUsedAt: lastUse(of: record, now: now), now: now)
    }

    /// The time of the last use of a record's session, at most `now`: if a clock went back, the idle timeout is counted
    /// from now.
    func lastUse(of record: SessionRecord, now: SessionTime) -> SessionTime {
        var latest = record.lastUsedAt
        if let unwritten = touches.lastUse(of: record.key.id) { latest = max(latest, unwritten) }
        if let resident = table.cachedSession(record.key) { latest = max(latest, resident.lastUsedAt) }
        return min(latest, now)
    }
}
