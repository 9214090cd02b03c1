/// Exchanges the access tokens of sessions for tokens of one upstream (RFC 8693): at most one exchange per session and
/// upstream at a time. The tokens are kept in this process only.
public protocol TokenExchanging: Sendable {
    /// The token of an earlier exchange, if it is still valid for long enough and the session's own tokens have not
    /// changed. Never suspends; event loops may call it.
    /// - Parameter upstream: The index in ``GatewayConfiguration/upstreams``.
    /// - Returns: The value of the `Authorization` field: `Bearer`, a space, the token. `nil`: call
    ///   ``exchange(_:ticket:upstream:traceparent:)``.
    func cached(_ session: Session, upstream: Int, now: WallTime) -> Secret?
    /// Exchanges the session's access token, or waits for the exchange in progress, for a bounded time. Refreshes the
    /// session's tokens first if the provider rejects the access token.
    /// - Parameters:
    ///   - ticket: `nil` if the session is an access token of a client, which cannot be refreshed.
    ///   - traceparent: The trace context of the calls; `nil` for none.
    func exchange(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> ExchangeOutcome
    /// The upstream rejected an exchanged token (401): it is dropped, so that the next request needs another exchange.
    ///
    /// Not more often than every few seconds for a session and an upstream: an upstream that rejects every token would
    /// otherwise cause an exchange for each request. Never suspends; event loops may call it.
    /// - Parameter token: The value of the `Authorization` field.
    /// - Returns: Whether the token is not used any more.
    func drop(_ token: Secret, of session: Session, upstream: Int) -> Bool
}

/// The result of a token exchange: the value of the `Authorization` field for the upstream.
public typealias ExchangeOutcome = TokenOutcome<Secret>

/// No tokens can be exchanged: for configurations without exchanges.
public struct NoTokenExchange: TokenExchanging {
    package init() {}

    /// Always `nil`.
    public func cached(_ session: Session, upstream: Int, now: WallTime) -> Secret? { nil }

    /// Always unavailable.
    public func exchange(
        _ session: Session, ticket: SessionTicket?, upstream: Int, traceparent: String?
    ) async -> ExchangeOutcome { .unavailable(status: 502, retryAfter: 60) }

    /// Always `false`.
    public func drop(_ token: Secret, of session: Session, upstream: Int) -> Bool { false }
}
