/// Judges whether a session may still be used, from its times alone.
///
/// The end of a session's life is fixed when it is made, so a clock that jumps back cannot move it.
public struct SessionTimeouts: Sendable, Equatable {
    private let idleMilliseconds: Int64
    private let absoluteMilliseconds: Int64
    /// A use is noted only if the last noted one is this long ago: the lesser of 60 seconds and a tenth of the idle
    /// timeout. A session may therefore end that much early, and never late.
    public let touchGranularity: Duration
    /// How long a session may go unused.
    public var idle: Duration { .milliseconds(idleMilliseconds) }
    /// ``touchGranularity``, for the hot path.
    private let granularityMilliseconds: Int64

    /// Makes a judgement.
    /// - Parameters:
    ///   - idle: How long a session may go unused.
    ///   - absolute: How long it may live.
    public init(idle: Duration, absolute: Duration) {
        idleMilliseconds = max(0, idle.wholeMilliseconds)
        absoluteMilliseconds = max(0, absolute.wholeMilliseconds)
        granularityMilliseconds = min(60_000, idleMilliseconds / 10)
        touchGranularity = .milliseconds(granularityMilliseconds)
    }

    /// Takes the timeouts of a plan.
    public init(_ configuration: SessionConfiguration) {
        self.init(idle: configuration.idleTimeout, absolute: configuration.absoluteTimeout)
    }

    /// When a session that is made now ends at the latest.
    public func end(ofSessionMadeAt now: Timestamp) -> Timestamp {
        later(now, absoluteMilliseconds)
    }

    /// When a session that was made then ends at the latest, given the tokens it has: without a refresh token it is of no
    /// use once its access token has ended.
    public func end(ofSessionMadeAt created: Timestamp, tokens: TokenSet) -> Timestamp {
        let end = end(ofSessionMadeAt: created)
        guard tokens.refreshToken == nil, let accessEnd = tokens.accessTokenExpiresAt else { return end }
        return min(end, accessEnd)
    }

    /// When a session ends at the latest once it is renewed: its end was fixed when it was made, and may only come nearer.
    public func end(of session: Session, refreshedWith refresh: SessionUpdate) -> Timestamp {
        min(session.expiresAt, end(ofSessionMadeAt: session.createdAt, tokens: refresh.tokens ?? session.tokens))
    }

    /// Whether a session is over by what it knows of itself.
    public func expiry(of session: Session, now: Timestamp) -> SessionExpiry? {
        expiry(expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt, now: now)
    }

    /// When a session ends if it is not used again.
    public func deadline(expiresAt: Timestamp, lastUsedAt: Timestamp) -> Timestamp {
        min(expiresAt, later(lastUsedAt, idleMilliseconds))
    }

    /// Whether a session is over.
    /// - Returns: Why it is, which is the timeout that came first, whenever one looks; `nil` while it may be used.
    public func expiry(expiresAt: Timestamp, lastUsedAt: Timestamp, now: Timestamp) -> SessionExpiry? {
        let idleEnd = later(lastUsedAt, idleMilliseconds)
        guard now >= min(expiresAt, idleEnd) else { return nil }
        return idleEnd < expiresAt ? .idle : .absolute
    }

    /// Whether a use is to be noted.
    public func isTouchDue(lastUsedAt: Timestamp, now: Timestamp) -> Bool {
        let (passed, overflow) = now.milliseconds.subtractingReportingOverflow(lastUsedAt.milliseconds)
        return !overflow && passed > 0 && passed >= granularityMilliseconds
    }

    private func later(_ time: Timestamp, _ milliseconds: Int64) -> Timestamp {
        let (sum, overflow) = time.milliseconds.addingReportingOverflow(milliseconds)
        return Timestamp(milliseconds: overflow ? .max : sum)
    }
}

/// Which timeout ended a session.
public enum SessionExpiry: Sendable, Hashable {
    /// It was not used for longer than its idle timeout.
    case idle
    /// It reached its absolute timeout.
    case absolute

    /// What metrics and the audit log call it.
    public var endReason: SessionEndReason {
        switch self {
        case .idle: .expiredIdle
        case .absolute: .expiredAbsolute
        }
    }
}

extension SessionEndReason {
    /// What a client with the ticket of a session that ended is told.
    public var unauthorizedReason: UnauthorizedReason {
        switch self {
        case .signedOut, .replaced, .revoked, .sourceRemoved: .revoked
        case .unreadable: .noSession
        case .refreshRejected: .refreshRejected
        case .expiredIdle: .expiredIdle
        case .expiredAbsolute: .expiredAbsolute
        }
    }
}
