/// Verifies the access tokens of clients (RFC 9068). A verified token is a session without a ticket: in no store, never
/// refreshed, and ended with the token.
public protocol AccessTokenVerifying: Sendable {
    /// The result of an earlier verification. Never suspends; event loops may call it.
    /// - Parameters:
    ///   - field: The value of `Authorization`: `Bearer` in any case, one character, the token.
    ///   - site: The index in ``GatewayConfiguration/sites`` of the site whose identities are asked.
    func cached(_ field: Secret, site: Int, now: WallTime) -> RefreshOutcome?
    /// Verifies a token, or waits for its verification in progress.
    /// - Returns: `failed` with 401 for a token that is rejected, 429 for a client with too many of them, and 503 if the
    ///   token cannot be verified now.
    func verify(_ field: Secret, site: Int, from origin: AuditContext) async -> RefreshOutcome
}

/// What happened to an access token of a client: the label `outcome`.
public enum AccessTokenOutcome: String, Sendable, CaseIterable {
    /// It is valid, as was verified before or now.
    case cached, accepted
    /// It is not valid (401), or was issued to the gateway itself.
    case rejected
    case ownToken = "own_token"
    /// It is valid without the required scope (403), could not be verified (503), or was one of too many (429).
    case scope, unavailable, limited
}

/// What a provider states about an access token of a client (RFC 7662 §2.2): the label `outcome`.
public enum IntrospectionOutcome: String, Sendable, CaseIterable {
    case active, inactive
    /// It did not respond, or not with a valid response.
    case unavailable
}
