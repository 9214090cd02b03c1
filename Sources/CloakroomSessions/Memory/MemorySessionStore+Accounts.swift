public import CloakroomCore
import Synchronization

extension MemorySessionStore {
    /// The account's sessions; never throws.
    public func sessions(of account: AccountName, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary] {
        liveSessions(of: account, now: now).map(\.summary).sorted { $0.createdAt > $1.createdAt }
    }

    /// Ends a session by its id; never throws.
    public func take(
        _ id: SessionID, of account: AccountName?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> EndedSession? {
        let removal = end(id, reason: reason, now: now) { session, _ in
            account == nil || session.user.account == account
        }
        guard case .ended(let session) = removal else { return nil }
        return EndedSession(id: id, opened: session)
    }

    /// Ends the account's sessions; never throws.
    public func takeAll(
        of account: AccountName, but kept: SessionID?, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> [EndedSession] {
        accounts.sessions(of: accountHashes.hash(account)).compactMap { id in
            guard id != kept else { return nil }
            let removal = end(id, reason: reason, now: now) { session, _ in
                session.user.account == account || session.user.name == account
            }
            guard case .ended(let session) = removal else { return nil }
            return EndedSession(id: id, opened: session)
        }
    }

    private func liveSessions(of account: AccountName, now: Timestamp) -> [Session] {
        accounts.sessions(of: accountHashes.hash(account)).compactMap { id in
            guard let session = shard(of: id).contents.withLock({ $0.session(named: id) }),
                session.user.account == account,
                timeouts.expiry(of: session, now: now) == nil
            else { return nil }
            return session
        }
    }
}

extension MemorySessionStore {
    /// Reads states; never throws.
    public func throttleStates(
        _ keys: [ThrottleKey], now: Timestamp
    ) async throws(SessionStoreError) -> [ThrottleState?] {
        throttle.states(keys, now: now)
    }

    /// Saves a state; never throws.
    public func replaceThrottleState(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) async throws(SessionStoreError) -> Bool {
        throttle.replace(key, old, with: new, lifetime: lifetime, now: now)
    }
}
