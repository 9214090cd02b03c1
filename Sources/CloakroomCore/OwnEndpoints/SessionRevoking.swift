/// Ends sessions on behalf of an operator.
public protocol SessionRevoking: Sendable {
    /// Ends all sessions of an account, and those that were signed in to under its name.
    /// - Returns: The number of sessions that were ended.
    func revoke(user account: AccountName, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
    /// Ends all sessions of the account with a user id of the upstream.
    /// - Returns: The number of sessions that were ended.
    func revoke(userID id: String, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
    /// Ends one session of any user.
    /// - Returns: 1, or 0 if there was none.
    func revoke(session id: SessionID, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
}
