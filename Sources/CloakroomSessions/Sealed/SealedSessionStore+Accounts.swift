import CloakroomCore

extension SealedSessionStore {
    func sessions(of account: AccountName, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary] {
        let live = try await records(of: account, now: now).filter { expiry(of: $0, now: now) == nil }
        return live.map { record in
            SessionSummary(
                id: record.key.id, createdAt: record.createdAt, lastUsedAt: lastUse(of: record, now: now),
                expiresAt: record.expiresAt, client: sealing.openClient(of: record) ?? SessionClient())
        }.sorted { $0.createdAt > $1.createdAt }
    }

    func end(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        guard case .record(let record) = try await records.read(id, now: now) else { return false }
        if let account, !sealing.secrets.accountHashes.all(account).contains(record.account) { return false }
        return try await end(record, reason: reason, now: now)
    }

    func endAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> [SessionID] {
        var ended: [SessionID] = []
        for record in try await records(of: account, now: now) where record.key.id != kept {
            if try await end(record, reason: reason, now: now) { ended.append(record.key.id) }
        }
        return ended
    }

    /// - Returns: Whether there was a session to end: one that was over is taken out too, as what it was.
    private func end(
        _ record: SessionRecord, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        let expiry = expiry(of: record, now: now)
        let removed = try await remove(record.key.id, reason: expiry?.endReason ?? reason, now: now)
        return removed != nil && expiry == nil
    }

    /// All records of an account, under whichever secret it was named.
    private func records(
        of account: AccountName, now: Timestamp
    ) async throws(SessionStoreError) -> [SessionRecord] {
        var found: [SessionRecord] = []
        // The oldest secret first: a record that is sealed anew meanwhile moves towards the newest, so it is met at
        // least once.
        for hash in sealing.secrets.accountHashes.all(account).reversed() {
            for record in try await records.records(of: hash, now: now) {
                found.removeAll { $0.key == record.key }
                found.append(record)
            }
        }
        return found
    }

    func throttleStates(
        _ keys: [ThrottleKey], now: Timestamp
    ) async throws(SessionStoreError) -> [ThrottleState?] {
        try await records.throttleStates(keys, now: now)
    }

    func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        try await records.replaceThrottleState(key, old, with: new, lifetime: lifetime, now: now)
    }
}
