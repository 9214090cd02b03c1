/// Ends sessions for an operator.
public protocol SessionRevoking: Sendable {
    /// Ends all sessions of an account.
    /// - Returns: How many there were.
    func revoke(user account: AccountName, from origin: RequestOrigin, now: Timestamp)
        async throws(SessionStoreError) -> Int
    /// Ends one session, whoever's it is.
    /// - Returns: 1, or 0 if there was none.
    func revoke(session id: SessionID, from origin: RequestOrigin, now: Timestamp)
        async throws(SessionStoreError) -> Int
}
