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

/// The result of a token refresh or exchange that a request triggered.
public enum TokenOutcome<Value: Sendable>: Sendable {
    /// What the request needs: the session with usable tokens, or the value of the `Authorization` field.
    case active(Value)
    /// The session has ended: the upstream rejected the refresh token, or the session was ended in the meantime.
    case ended(UnauthorizedReason)
    /// There are no usable tokens now; the session continues. The problem has the seconds until the next attempt.
    case failed(Problem)

    /// The upstream or the provider could not issue tokens now. `status` is 502, 503 or 504.
    public static func unavailable(status: Int, retryAfter: Int) -> Self {
        .failed(Problem(.unreachable, status: status, retryAfter: retryAfter))
    }

    /// The gateway's own request was rejected: an operator has to correct the configuration.
    public static func misconfigured(retryAfter: Int) -> Self {
        .failed(Problem(.identityMisconfigured, retryAfter: retryAfter))
    }

    /// The store cannot be reached.
    public static func storeUnavailable(retryAfter: Int) -> Self {
        .failed(Problem(.storeUnavailable, retryAfter: retryAfter))
    }
}

extension TokenOutcome: Equatable where Value: Equatable {}

/// The result of a token refresh.
public typealias RefreshOutcome = TokenOutcome<Session>

/// When the tokens of a session have to be refreshed: computed once, when the upstream issues them.
///
/// The window before the access token's expiry is a fifth of its lifetime and at most 60 seconds. In the window,
/// requests use the current token while the tokens are refreshed in the background. Requests wait for the refresh only
/// in the last eighth of the window and after it.
///
/// Neither time is earlier than ``minimumInterval`` after the tokens were issued: expiry never triggers refreshes of a
/// session more often, however short the reported lifetime. A token that expires earlier is used until the upstream
/// rejects it. Both times are computed from the stored tokens, so all replicas agree on them.
public struct RefreshSchedule: Sendable, Equatable {
    /// The minimum time between two refreshes of a session that are triggered by token expiry.
    public static let minimumInterval = Duration.seconds(30)

    /// From this time on the tokens are refreshed in the background. If ``WallTime/milliseconds`` is `Int64.max`, they
    /// are never refreshed: there is no refresh token, or the expiry of the access token is unknown.
    public let refreshAfter: WallTime
    /// From this time on requests wait for the refresh. Never before ``refreshAfter``.
    public let refreshRequiredAt: WallTime

    /// Computes the times.
    /// - Parameter spread: Arbitrary bits that determine a delay of up to a fifth of the window, so that sessions
    ///   created at the same time are not refreshed at the same time. The same bits give the same time on every
    ///   replica.
    public init(
        _ tokens: TokenSet, spread: UInt64, minimumInterval: Duration = RefreshSchedule.minimumInterval
    ) {
        guard tokens.refreshToken != nil, let end = tokens.accessTokenExpiresAt else {
            refreshAfter = WallTime(milliseconds: .max)
            refreshRequiredAt = refreshAfter
            return
        }
        let window = Self.window(until: end, obtainedAt: tokens.issuedAt)
        let jitter = window / 5 * Int64(spread & 0xff) / 256
        let earliest = tokens.issuedAt + minimumInterval
        refreshAfter = max(end - .milliseconds(window + jitter), earliest)
        refreshRequiredAt = max(end - .milliseconds(window / 8), earliest)
    }

    /// Returns the milliseconds before a token's expiry in which it has to be refreshed.
    static func window(until end: WallTime, obtainedAt: WallTime) -> Int64 {
        min(60_000, max(0, (end - obtainedAt).wholeMilliseconds) / 5)
    }

    /// Whether the tokens have to be refreshed, and how urgently.
    @inline(__always)
    public func urgency(at now: WallTime) -> RefreshUrgency {
        now < refreshAfter ? .none : now < refreshRequiredAt ? .background : .required
    }
}

/// Whether tokens have to be refreshed.
public enum RefreshUrgency: Sendable, Hashable {
    /// No refresh yet.
    case none
    /// Refresh in the background; the access token is still valid.
    case background
    /// Refresh before the request is forwarded.
    case required
}
