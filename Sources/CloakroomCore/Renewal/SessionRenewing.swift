/// Refreshes the tokens of sessions: at most one refresh per session at a time, in this process and across replicas.
public protocol TokenRefreshing: Sendable {
    /// Refreshes a session's tokens, or waits for a refresh in progress, for a bounded time.
    /// - Parameters:
    ///   - session: The session of the caller. Its version shows whether it has been refreshed since.
    ///   - cause: Why the tokens have to be refreshed.
    ///   - traceparent: The trace context for upstream calls; `nil` for none.
    func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome
    /// Whether a refresh should follow after an upstream rejected the access token: not if the token was obtained a
    /// moment ago for the same reason. Never suspends; event loops may call it.
    func shouldRefreshAfterRejection(_ session: Session) -> Bool
    /// Refreshes a session's tokens in the background while requests use the current ones. Does nothing while a refresh
    /// is in progress or has just failed. Never suspends; event loops may call it.
    func refreshInBackground(_ session: Session, ticket: SessionTicket)
}

/// Why tokens have to be refreshed.
public enum RefreshTrigger: Sendable, Hashable {
    /// The access token has expired or is about to expire.
    case expired
    /// The upstream rejected the access token (401).
    case rejected
}

/// The result of a token refresh that a request triggered.
public enum RefreshOutcome: Sendable {
    /// The session with usable tokens.
    case active(Session)
    /// The session has ended: the upstream rejected the refresh token, or the session was ended in the meantime.
    case ended(UnauthorizedReason)
    /// The upstream could not refresh the tokens now; the session continues. `status` is 502, 503 or 504.
    case unavailable(status: Int, retryAfter: Int)
    /// The store cannot be reached; the session continues.
    case storeUnavailable(retryAfter: Int)
}
