/// When the tokens of a session are to be renewed: computed once, when the upstream gives them.
///
/// The window before the access token's end is a fifth of its life and 60 seconds at most. In it requests go on with the
/// token that is there while the next one is fetched; only in the last eighth of it, and after, do they wait.
public struct RenewalTimes: Sendable, Equatable {
    /// From here on the tokens are renewed while requests go on. ``Timestamp/milliseconds`` is `Int64.max` for never:
    /// there is no refresh token, or nothing is known of the access token's end.
    public let dueAt: Timestamp
    /// From here on a request waits for the renewal. Never before ``dueAt``.
    public let neededAt: Timestamp

    /// Works the times out.
    /// - Parameter spread: Any bits; up to a fifth of the window is added by them, so that sessions which were made at
    ///   the same time are not renewed at the same time. The same bits give the same time on every replica.
    public init(_ tokens: SessionTokens, spread: UInt64) {
        guard tokens.refreshToken != nil, let end = tokens.accessExpiresAt else {
            dueAt = Timestamp(milliseconds: .max)
            neededAt = dueAt
            return
        }
        let life = max(0, (end - tokens.obtainedAt).wholeMilliseconds)
        let window = min(60_000, life / 5)
        let jitter = window / 5 * Int64(spread & 0xff) / 256
        dueAt = end - .milliseconds(window + jitter)
        neededAt = end - .milliseconds(window / 8)
    }

    /// Whether the tokens are to be renewed, and how urgently.
    @inline(__always)
    public func need(at now: Timestamp) -> RenewalNeed {
        now < dueAt ? .none : now < neededAt ? .soon : .now
    }
}

/// Whether tokens are to be renewed.
public enum RenewalNeed: Sendable, Hashable {
    /// Not yet.
    case none
    /// Yes; the access token is good meanwhile.
    case soon
    /// Before anything else.
    case now
}
