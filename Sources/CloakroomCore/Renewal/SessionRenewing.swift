/// Renews the tokens of sessions: one renewal at a time for a session, in this process and across replicas.
public protocol TokenRefreshing: Sendable {
    /// Renews a session's tokens, or waits for whoever is doing so, for a bounded time.
    /// - Parameters:
    ///   - session: The session as the caller has it: its version tells whether it was renewed since.
    ///   - cause: Why the tokens are of no more use.
    ///   - traceparent: The trace context that calls upstream carry; `nil` for none.
    func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome
    /// Whether it may help to renew tokens that an upstream has refused: not if these are from a moment ago, and were
    /// fetched for the same reason. Never waits; event loops may call it.
    func shouldRefreshAfterRejection(_ session: Session) -> Bool
    /// Has a session's tokens renewed while requests go on with those that are there. Does nothing while that is under
    /// way, or has failed just now. Never waits; event loops may call it.
    func refreshInBackground(_ session: Session, ticket: SessionTicket)
}

/// Why tokens have to be renewed.
public enum RefreshTrigger: Sendable, Hashable {
    /// The access token has ended, or is about to.
    case expired
    /// The upstream refused the access token (401).
    case rejected
}

/// What became of a request's wish for fresh tokens.
public enum RefreshOutcome: Sendable {
    /// Here is the session with tokens to go on with.
    case active(Session)
    /// The session is over: the upstream refused for good, or it was ended meanwhile.
    case ended(UnauthorizedReason)
    /// The upstream could not renew now; the session stays. `status` is 502, 503 or 504.
    case unavailable(status: Int, retryAfter: Int)
    /// The store cannot be reached; the session stays.
    case storeUnavailable(retryAfter: Int)
}
