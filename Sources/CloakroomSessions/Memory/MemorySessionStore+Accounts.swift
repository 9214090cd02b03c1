package import CloakroomCore
import Synchronization

/// The sessions of accounts and of sessions at providers.
extension MemorySessionStore {
    package func sessions(of account: AccountName, now: SessionTime) async throws(SessionStoreError) -> [SessionSummary]
    {
        liveSessions(of: account, now: now).map(\.summary).sorted { $0.createdAt > $1.createdAt }
    }

    package func takeOldest(
        of user: UserProfile, over limit: Int, but new: SessionID, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        var live = liveSessions(of: user.account, now: now)
        if user.name != user.account { live += liveSessions(of: user.name, now: now) }
        let rule = SurplusRule(limit: limit, accounts: [], usedAfter: now, new: new)
        let chosen = rule.oldest(live.count - limit, of: live.map(SurplusRule.Candidate.init))
        return end(chosen, reason: reason, now: now) { _ in true }
    }

    package func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> EndedSession? {
        let removal = end(id, reason: reason, now: now) { session, _ in
            account.map(session.belongs(to:)) ?? true
        }
        guard case .ended(let session) = removal else { return nil }
        return EndedSession(id: id, opened: session)
    }

    package func takeAll(
        _ selection: SessionSelection, reason: SessionEndReason, now: SessionTime
    ) async throws(SessionStoreError) -> [EndedSession] {
        switch selection {
        case .account(let account, let kept):
            end(accounts.sessions(of: accountHashes.hash(account)), reason: reason, now: now) { session in
                session.id != kept && session.hasName(account)
            }
        case .created(let account, let time, let isNameless):
            end(accounts.sessions(of: accountHashes.hash(account)), reason: reason, now: now) { session in
                session.createdAt < time && session.hasName(account)
                    && !(isNameless && session.provenance?.session != nil)
            }
        case .provider(let session, let account):
            end(providerSessions.sessions(of: accountHashes.hash(session)), reason: reason, now: now) { candidate in
                candidate.provenance?.session == session && (account.map(candidate.belongs(to:)) ?? true)
            }
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
    package func throttleStates(
        _ keys: [ThrottleKey], now: SessionTime
    ) async throws(SessionStoreError) -> [ThrottleState?] {
        throttle.states(keys, now: now)
    }

    package func countAttempt(
        _ counters: [ThrottleCounter], now: SessionTime
    ) async throws(SessionStoreError) -> ThrottleResult {
        throttle.count(counters, now: now)
    }

    package func removeAttempt(_ counts: [ThrottleCount], now: SessionTime) async throws(SessionStoreError) {
        throttle.remove(counts, now: now)
    }

    package func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        marks.set(key, to: time, lifetime: lifetime, now: now)
    }

    package func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        marks.latest(keys, now: now)
    }
}
