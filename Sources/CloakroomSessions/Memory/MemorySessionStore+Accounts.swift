public import CloakroomCore
import Synchronization

/// The sessions of accounts and of sessions at providers.
extension MemorySessionStore {
    /// The account's sessions; never throws.
    public func sessions(of account: AccountName, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary]
    {
        liveSessions(of: account, now: now).map(\.summary).sorted { $0.createdAt > $1.createdAt }
    }

    /// Ends the oldest sessions of a user who has too many; never throws.
    public func takeOldest(
        of user: UserProfile, over limit: Int, but new: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        var live = liveSessions(of: user.account, now: now)
        if user.name != user.account { live += liveSessions(of: user.name, now: now) }
        let oldestFirst = live.filter { $0.id != new }
            .sorted { ($0.createdAt, $0.id.value) < ($1.createdAt, $1.id.value) }
        return end(
            oldestFirst.prefix(min(max(0, live.count - limit), SurplusRule.maximum)).map(\.id), reason: reason,
            now: now
        ) { _ in true }
    }

    /// Ends a session by its id; never throws.
    public func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> EndedSession? {
        let removal = end(id, reason: reason, now: now) { session, _ in
            account.map(session.belongs(to:)) ?? true
        }
        guard case .ended(let session) = removal else { return nil }
        return EndedSession(id: id, opened: session)
    }

    /// Ends the account's sessions; never throws.
    public func takeAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        end(accounts.sessions(of: accountHashes.hash(account)), reason: reason, now: now) { session in
            session.id != kept && session.hasName(account)
        }
    }

    /// Ends the account's sessions that were created before a time; never throws.
    public func takeAll(
        of account: AccountName, createdBefore: SessionTime, isNameless: Bool, reason: SessionEndReason,
        now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        end(accounts.sessions(of: accountHashes.hash(account)), reason: reason, now: now) { session in
            session.createdAt < createdBefore && session.hasName(account)
                && !(isNameless && session.provenance?.session != nil)
        }
    }

    /// Ends the sessions of a session at a provider; never throws.
    public func takeAll(
        of session: ProviderSession, account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        end(providerSessions.sessions(of: accountHashes.hash(session)), reason: reason, now: now) { candidate in
            candidate.provenance?.session == session && (account.map(candidate.belongs(to:)) ?? true)
        }
    }

    /// Ends those of several sessions that meet a condition.
    private func end(
        _ ids: [SessionID], reason: SessionEndReason, now: SessionTime, if condition: @Sendable (Session) -> Bool
    ) -> [EndedSession] {
        ids.compactMap { id in
            guard case .ended(let session) = end(id, reason: reason, now: now, if: { session, _ in condition(session) })
            else { return nil }
            return EndedSession(id: id, opened: session)
        }
    }

    private func liveSessions(of account: AccountName, now: SessionTime) -> [Session] {
        accounts.sessions(of: accountHashes.hash(account)).compactMap { id in
            guard let session = shard(of: id).contents.withLock({ $0.session(named: id) }),
                session.belongs(to: account),
                timeouts.expiry(of: session, now: now) == nil
            else { return nil }
            return session
        }
    }
}

/// The sign-in throttle and timed marks.
extension MemorySessionStore {
    /// Reads states; never throws.
    public func throttleStates(
        _ keys: [ThrottleKey], now: SessionTime
    ) async throws(SessionStoreError) -> [ThrottleState?] {
        throttle.states(keys, now: now)
    }

    /// Counts an attempt; never throws.
    public func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        throttle.count(counters, now: now)
    }

    /// Removes an attempt; never throws.
    public func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        throttle.remove(counts, now: now)
    }

    /// Sets a mark; never throws.
    public func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        marks.set(key, to: time, lifetime: lifetime, now: now)
    }

    /// Reads marks; never throws.
    public func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        marks.latest(keys, now: now)
    }
}
