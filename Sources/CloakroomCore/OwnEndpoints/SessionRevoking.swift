/// Ends sessions for an operator.
public protocol SessionRevoking: Sendable {
    /// Ends all sessions of an account, and those that were signed in to under its name.
    /// - Returns: How many there were.
    func revoke(user account: AccountName, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
    /// Ends all sessions of the account that the upstream knows by a user id.
    /// - Returns: How many there were.
    func revoke(userID id: String, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
    /// Ends one session, whoever's it is.
    /// - Returns: 1, or 0 if there was none.
    func revoke(session id: SessionID, from origin: AuditContext, now: Timestamp)
        async throws(SessionStoreError) -> Int
}
