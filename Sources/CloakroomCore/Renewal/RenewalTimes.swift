/// When the tokens of a session are to be renewed: computed once, when the upstream gives them.
///
/// The window before the access token's end is a fifth of its life and 60 seconds at most. In it requests go on with the
/// token that is there while the next one is fetched; only in the last eighth of it, and after, do they wait.
///
/// Neither time is earlier than ``minimumInterval`` after the upstream gave the tokens: no session is refreshed more
/// often for reasons of time, however short a lifetime the upstream reports. A token that ends before is used until the
/// upstream rejects it. Both times are computed from the stored tokens, so all replicas agree on them.
public struct RefreshSchedule: Sendable, Equatable {
    /// The least time between two refreshes of a session that are due because of the token's end.
    public static let minimumInterval = Duration.seconds(30)

    /// From here on the tokens are renewed while requests go on. ``Timestamp/milliseconds`` is `Int64.max` for never:
    /// there is no refresh token, or nothing is known of the access token's end.
    public let refreshAfter: Timestamp
    /// From here on a request waits for the renewal. Never before ``refreshAfter``.
    public let refreshRequiredAt: Timestamp

    /// Works the times out.
    /// - Parameter spread: Any bits; up to a fifth of the window is added by them, so that sessions which were made at
    ///   the same time are not renewed at the same time. The same bits give the same time on every replica.
    public init(
        _ tokens: TokenSet, spread: UInt64, minimumInterval: Duration = RefreshSchedule.minimumInterval
    ) {
        guard tokens.refreshToken != nil, let end = tokens.accessTokenExpiresAt else {
            refreshAfter = Timestamp(milliseconds: .max)
            refreshRequiredAt = refreshAfter
            return
        }
        let window = Self.window(until: end, obtainedAt: tokens.issuedAt)
        let jitter = window / 5 * Int64(spread & 0xff) / 256
        let earliest = tokens.issuedAt + minimumInterval
        refreshAfter = max(end - .milliseconds(window + jitter), earliest)
        refreshRequiredAt = max(end - .milliseconds(window / 8), earliest)
    }

    /// Milliseconds before a token's end in which it is to be renewed.
    static func window(until end: Timestamp, obtainedAt: Timestamp) -> Int64 {
        min(60_000, max(0, (end - obtainedAt).wholeMilliseconds) / 5)
    }

    /// Whether the tokens are to be renewed, and how urgently.
    @inline(__always)
    public func urgency(at now: Timestamp) -> RefreshUrgency {
        now < refreshAfter ? .none : now < refreshRequiredAt ? .background : .required
    }
}

/// Whether tokens are to be renewed.
public enum RefreshUrgency: Sendable, Hashable {
    /// Not yet.
    case none
    /// Yes; the access token is good meanwhile.
    case background
    /// Before anything else.
    case required
}
