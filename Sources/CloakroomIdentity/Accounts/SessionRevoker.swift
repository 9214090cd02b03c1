public import CloakroomCore

/// Ends sessions for an operator, on all replicas, and records that in the audit log.
///
/// Their tokens are revoked upstream in the background if the store can open the sessions.
public struct SessionRevoker: SessionRevoking {
    private let sessions: any SessionStore
    private let observer: any AccountObserver
    private let source: @Sendable () -> SessionSource
    private let revoke: @Sendable ([EndedSession]) -> AccountEvent.EndedTokens

    /// Creates a revoker over a store.
    /// - Parameters:
    ///   - source: The source of the current user ids.
    ///   - revoke: Starts revoking the tokens of ended sessions upstream and never waits:
    ///     ``TokenRevocations/revoke(_:)``.
    public init(
        sessions: any SessionStore, observer: any AccountObserver,
        source: @escaping @Sendable () -> SessionSource,
        revoke: @escaping @Sendable ([EndedSession]) -> AccountEvent.EndedTokens
    ) {
        self.sessions = sessions
        self.observer = observer
        self.source = source
        self.revoke = revoke
    }

    /// Ends all sessions of an account, and those that were signed in under its name.
    public func revoke(
        user account: AccountName, from origin: AuditContext, now: SessionTime
    ) async throws(SessionStoreError) -> Int {
        do throws(SessionStoreError) {
            return note(try await sessions.takeAll(.account(account), reason: .revoked, now: now), origin)
        } catch {
            _ = note(error.ended, origin)
            throw error
        }
    }

    /// Ends all sessions of the account with this user id at the identity upstream.
    public func revoke(
        userID id: String, from origin: AuditContext, now: SessionTime
    ) async throws(SessionStoreError) -> Int {
        try await revoke(user: AccountName(userID: id, source: source()), from: origin, now: now)
    }

    /// Ends one session of any user.
    public func revoke(
        session id: SessionID, from origin: AuditContext, now: SessionTime
    ) async throws(SessionStoreError) -> Int {
        let ended = try await sessions.take(id, of: nil, reason: .revoked, now: now)
        return note(ended.map { [$0] } ?? [], origin)
    }

    private func note(_ ended: [EndedSession], _ origin: AuditContext) -> Int {
        if !ended.isEmpty {
            observer.accountEvent(.revoked(ended.map(\.id), tokens: revoke(ended)), from: origin)
        }
        return ended.count
    }
}
