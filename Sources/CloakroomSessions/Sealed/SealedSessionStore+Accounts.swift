import CloakroomCore

/// The sessions of accounts and of sessions at providers.
extension SealedSessionStore {
    func sessions(of account: AccountName, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary] {
        try await listing(of: account, now: now).value.get()
    }

    /// The listing that the account's requests share from now on: each reads all of its records.
    func listing(of account: AccountName, now: SessionTime) -> AccountListings.Listing {
        listings.listing(of: account) {
            do throws(SessionStoreError) {
                let found = try await self.liveRecords(of: account, now: now).map { record in
                    SessionSummary(
                        id: record.key.id, createdAt: record.createdAt, lastUsedAt: self.lastUse(of: record, now: now),
                        expiresAt: record.expiresAt,
                        client: self.sealing.openClient(of: record)?.client ?? SessionClientInfo(),
                        isBound: SessionSealer.isBound(record))
                }
                return .success(found.sorted { $0.createdAt > $1.createdAt })
            } catch {
                return .failure(error)
            }
        }
    }

    private func liveRecords(
        of account: AccountName, now: SessionTime
    ) async throws(SessionStoreError) -> [SessionRecord] {
        let hashes = sealing.secrets.accountHashes.candidateHashes(account)
        // A user with another account who typed this name is found by the name for an operator only.
        let found = try await records(of: account, now: now).filter {
            hashes.contains($0.account) && expiry(of: $0, now: now) == nil
        }
        let ended = try await cutOff(found, now: now)
        return found.filter { !ended.contains($0.key.id) }
    }

    /// Ends a session by its id, without opening it: that requires its ticket.
    func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> EndedSession? {
        guard case .record(let record) = try await readRecord(id, now: now) else {
            // Its record may be written again after this.
            try await checkEnd(of: id, now: now)
            return nil
        }
        if let account, !sealing.secrets.accountHashes.candidateHashes(account).contains(record.account) { return nil }
        guard try await end(record, reason: reason, now: now) else { return nil }
        return EndedSession(id: id, opened: nil)
    }

    func takeAll(
        _ selection: SessionSelection, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        switch selection {
        case .account(let account, let kept):
            return try await endAll(indexes(of: account), keeping: kept, now: now) {
                () async throws(SessionStoreError) in
                let found = try await records(of: account, now: now).filter { $0.key.id != kept }
                return try await end(found, reason: reason, now: now)
            }
        case .created(let account, let time, let isNameless):
            func endListed() async throws(SessionStoreError) -> [EndedSession] {
                let found = try await records(of: account, now: now).filter {
                    $0.createdAt < time && !(isNameless && $0.provider != nil)
                }
                return try await end(found, reason: reason, now: now)
            }
            // A cutoff ends all sessions of an index, and there is no index of those without a session at a provider.
            guard !isNameless else { return try await endListed() }
            return try await endAll(indexes(of: account), before: time, now: now, endListed)
        case .provider(let session, let account):
            let hasher = sealing.secrets.accountHashes
            let indexes = hasher.candidateHashes(session).map(RecordIndex.providerSession)
            if let accounts = account.map(hasher.candidateHashes) {
                // A cutoff ends all sessions of an index: not if some are those of another account.
                let found = try await records(in: indexes, now: now)
                let own = found.filter { accounts.contains($0.account) }
                guard own.count == found.count else { return try await end(own, reason: reason, now: now) }
            }
            return try await endAll(indexes, now: now) { () async throws(SessionStoreError) in
                try await end(try await records(in: indexes, now: now), reason: reason, now: now)
            }
        }
    }

    private func indexes(of account: AccountName) -> [RecordIndex] {
        sealing.secrets.accountHashes.candidateHashes(account).map(RecordIndex.account)
    }

    func takeOldest(
        of user: UserProfile, over limit: Int, but new: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        let names = user.name == user.account ? [user.account] : [user.account, user.name]
        // If a user's sessions are spread over these indexes, the limit is a multiple of the configured one.
        let hashes = names.flatMap(sealing.secrets.accountHashes.candidateHashes)
        let rule = SurplusRule(limit: limit, accounts: hashes, usedAfter: now - longest.idle, new: new)
        var ended: [EndedSession] = []
        do throws(SessionStoreError) {
            // Another sign-in may have chosen, and ended, the same ones for itself.
            for _ in 0..<SurplusRule.maxRounds {
                let isComplete = try await endSurplus(
                    of: names, hashes, by: rule, into: &ended, reason: reason, now: now)
                if isComplete { break }
            }
        } catch {
            throw error.afterEnding(ended)
        }
        return ended
    }

    /// - Returns: Whether all that were chosen have been ended here, or cannot be ended now.
    private func endSurplus(
        of names: [AccountName], _ hashes: [UInt64], by rule: SurplusRule, into ended: inout [EndedSession],
        reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        var (isComplete, isCurrent) = (true, true)
        // Nearly always there is none, so all are read at the same time.
        for (hash, first) in zip(hashes, await surpluses(of: hashes, by: rule, now: now)) {
            var ids: [SessionID] = []
            let found = try await isCurrent ? first.get() : surplus(of: hash, by: rule, now: now)
            switch found {
            case .none: continue
            case .records(let oldest): ids = oldest
            case .unknown:
                var all: [SessionID: SurplusRule.Candidate] = [:]
                for name in names {
                    for record in try await liveRecords(of: name, now: now) {
                        all[record.key.id] = SurplusRule.Candidate(record)
                    }
                }
                ids = rule.oldest(all.count - rule.limit, of: all.values)
            }
            isCurrent = false
            if await !end(ids, into: &ended, reason: reason, now: now) { isComplete = false }
            if found == .unknown { break }
        }
        return isComplete
    }

    private func surpluses(
        of hashes: [UInt64], by rule: SurplusRule, now: SessionTime
    ) async -> [Result<RecordSurplus, SessionStoreError>] {
        typealias Found = Result<RecordSurplus, SessionStoreError>
        let find: @Sendable (UInt64) async -> Found = { hash in
            await Found { () async throws(SessionStoreError) in try await self.surplus(of: hash, by: rule, now: now) }
        }
        // Usual: the user name is the account, and there is one key.
        if hashes.count == 1 { return [await find(hashes[0])] }
        let results = await withTaskGroup(of: (Int, Found).self) { group in
            for (index, hash) in hashes.enumerated() { group.addTask { (index, await find(hash)) } }
            return await group.reduce(into: [Int: Found]()) { $0[$1.0] = $1.1 }
        }
        return hashes.indices.map { results[$0] ?? .success(.none) }
    }

    private func surplus(
        of hash: UInt64, by rule: SurplusRule, now: SessionTime
    ) async throws(SessionStoreError) -> RecordSurplus {
        try await meter.measure(.list, await records.surplus(of: hash, by: rule, now: now))
    }

    /// Ends sessions one by one: those that cannot be ended now are left for the next sign-in.
    /// - Returns: `false` if some had ended already.
    private func end(
        _ ids: [SessionID], into ended: inout [EndedSession], reason: SessionEndReason, now: SessionTime
    ) async -> Bool {
        var isComplete = true
        for id in ids {
            do throws(SessionStoreError) {
                if try await remove(id, reason: reason, now: now) != nil {
                    ended.append(EndedSession(id: id, opened: nil))
                } else {
                    isComplete = false
                }
            } catch { continue }
        }
        return isComplete
    }

    private func end(
        _ records: [SessionRecord], reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        var ended: [EndedSession] = []
        do throws(SessionStoreError) {
            for record in records where try await end(record, reason: reason, now: now) {
                ended.append(EndedSession(id: record.key.id, opened: nil))
            }
        } catch {
            throw error.afterEnding(ended)
        }
        return ended
    }

    /// - Returns: Whether there was a session to end: an expired one is removed too, with its own reason.
    private func end(
        _ record: SessionRecord, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        let expiry = expiry(of: record, now: now)
        let removed = try await remove(record.key.id, reason: expiry ?? reason, now: now)
        return removed != nil && expiry == nil
    }

    /// All records of an account, or that were signed in under this name, under the hashes of all secrets.
    private func records(
        of account: AccountName, now: SessionTime
    ) async throws(SessionStoreError) -> [SessionRecord] {
        try await records(in: indexes(of: account), now: now)
    }

    /// The records of several indexes, each once.
    /// - Parameter indexes: Under all secrets, the newest first.
    private func records(
        in indexes: [RecordIndex], now: SessionTime
    ) async throws(SessionStoreError) -> [SessionRecord] {
        var found: [SessionRecord] = []
        var places: [SessionKey: Int] = [:]
        // The oldest secret first: a record that is resealed in the meantime moves towards the newest, so it is found
        // at least once.
        for index in indexes.reversed() {
            for record in try await meter.measure(.list, await records.records(in: index, now: now)) {
                if let place = places[record.key] {
                    found[place] = record
                } else {
                    places[record.key] = found.count
                    found.append(record)
                }
            }
        }
        return found
    }
}

/// The sign-in throttle and timed marks.
extension SealedSessionStore {
    func throttleStates(
        _ keys: [ThrottleKey], now: SessionTime
    ) async throws(SessionStoreError) -> [ThrottleState?] {
        try await meter.measure(.throttleRead, await records.throttleStates(keys, now: now))
    }

    func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        try await meter.measure(.throttleWrite, await records.countAttempt(counters, now: now))
    }

    func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        try await meter.measure(.throttleWrite, await records.removeAttempt(counts, now: now))
    }

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        try await meter.measure(.markWrite, await records.setMark(key, to: time, lifetime: lifetime, now: now))
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        try await meter.measure(.markRead, await records.latestMark(keys, now: now))
    }
}
