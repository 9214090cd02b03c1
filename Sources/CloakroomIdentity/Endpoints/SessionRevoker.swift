public import CloakroomCore

/// Ends sessions for an operator, on all replicas, and says so in the audit log.
///
/// Tokens are not made void upstream: without its ticket a session cannot be opened. Nobody can use them any more.
public struct SessionRevoker: SessionRevoking {
    private let sessions: any AccountSessions
    private let observer: any AccountObserver

    /// Makes a revoker over a store.
    public init(sessions: any AccountSessions, observer: any AccountObserver) {
        self.sessions = sessions
        self.observer = observer
    }

    /// Ends all sessions of an account.
    public func revoke(
        user account: AccountName, from origin: RequestOrigin, now: Timestamp
    ) async throws(SessionStoreError) -> Int {
        let ended = try await sessions.endAll(of: account, but: nil, reason: .revoked, now: now)
        return note(ended, origin)
    }

    /// Ends one session, whoever's it is.
    public func revoke(
        session id: SessionID, from origin: RequestOrigin, now: Timestamp
    ) async throws(SessionStoreError) -> Int {
        let isEnded = try await sessions.end(id, of: nil, reason: .revoked, now: now)
        return note(isEnded ? [id] : [], origin)
    }

    private func note(_ ended: [SessionID], _ origin: RequestOrigin) -> Int {
        if !ended.isEmpty { observer.accountEvent(.revoked(ended), from: origin) }
        return ended.count
    }
}
