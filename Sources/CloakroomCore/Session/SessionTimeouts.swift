import Synchronization

/// Evaluates whether a session is still valid, from its times alone.
///
/// The absolute end of a session is fixed when it is created, so a clock that jumps back cannot move it.
public struct SessionTimeouts: Sendable, Equatable {
    private let idleMilliseconds: Int64
    private let absoluteMilliseconds: Int64
    /// The minimum time between two recorded uses of a session.
    ///
    /// In one process: the lesser of 60 seconds and a tenth of the idle timeout. A session may end up to this much
    /// early, and never late.
    ///
    /// In a store that processes share, where each recorded use is a write: an eighth of the idle timeout. A session
    /// never ends early; it may end up to this much and ``touchWriteInterval`` late.
    public let touchGranularity: Duration
    /// The maximum time until a recorded use is written to a shared store: one second, or an eighth of the idle timeout
    /// if that is less. 0 in one process.
    public let touchWriteInterval: Duration
    /// The time after its last recorded use at which a session ends: the idle timeout, in a shared store plus
    /// ``touchGranularity`` and ``touchWriteInterval``, because its last use may be later than recorded by this much.
    public var idle: Duration { .milliseconds(idleMilliseconds) }
    /// The maximum lifetime of a session.
    public var absolute: Duration { .milliseconds(absoluteMilliseconds) }
    /// ``touchGranularity``, for the hot path.
    private let granularityMilliseconds: Int64
    private let isShared: Bool

    /// Creates the timeouts.
    /// - Parameters:
    ///   - idle: The maximum time without a use.
    ///   - absolute: The maximum lifetime.
    ///   - isShared: Whether the times of use are in a store that processes share.
    public init(idle: Duration, absolute: Duration, isShared: Bool = false) {
        self.init(idle: idle, absolute: absolute, isShared: isShared, interval: 1)
    }

    private init(idle: Duration, absolute: Duration, isShared: Bool, interval minimum: Int64) {
        self.isShared = isShared
        let timeout = max(0, idle.wholeMilliseconds)
        absoluteMilliseconds = max(0, absolute.wholeMilliseconds)
        granularityMilliseconds = isShared ? timeout / 8 : min(60_000, timeout / 10)
        touchGranularity = .milliseconds(granularityMilliseconds)
        let interval = isShared ? max(minimum, min(1_000, granularityMilliseconds)) : 0
        touchWriteInterval = .milliseconds(interval)
        let (end, overflow) = timeout.addingReportingOverflow(isShared ? granularityMilliseconds + interval : 0)
        idleMilliseconds = overflow ? .max : end
    }

    /// Creates the timeouts of a configuration.
    /// - Parameter isShared: Whether the times of use are in a store that processes share.
    public init(_ configuration: SessionConfiguration, isShared: Bool = false) {
        self.init(idle: configuration.idleTimeout, absolute: configuration.absoluteTimeout, isShared: isShared)
    }

    /// The timeouts of a session with these terms, in the same store.
    public func of(_ terms: SessionTerms?) -> Self {
        guard let terms else { return self }
        return Self(
            idle: terms.idle, absolute: terms.absolute, isShared: isShared,
            interval: max(1, touchWriteInterval.wholeMilliseconds))
    }

    /// The latest end of a session that is created now.
    public func end(ofSessionMadeAt now: SessionTime) -> SessionTime {
        later(now, absoluteMilliseconds)
    }

    /// The latest end of a session that was created at a given time, considering its tokens: without a refresh token it
    /// is unusable once its access token has expired.
    public func end(ofSessionMadeAt created: SessionTime, tokens: TokenSet) -> SessionTime {
        let end = end(ofSessionMadeAt: created)
        guard tokens.refreshToken == nil, let accessEnd = tokens.accessTokenExpiresAt else { return end }
        return min(end, accessEnd.sessionTime)
    }

    /// The latest end of a session that is created now, considering its tokens and what its provider permits.
    public func end(of new: NewSession, madeAt now: SessionTime) -> SessionTime {
        min(
            of(new.terms).end(ofSessionMadeAt: now, tokens: new.tokens),
            new.endsBy?.sessionTime ?? SessionTime(milliseconds: .max))
    }

    /// The latest end of a session after a refresh: the end was fixed at creation, and a refresh can only bring it
    /// forward. Only the end of the provider's own session moves with each refresh, up to the absolute timeout.
    public func end(of session: Session, refreshedWith refresh: SessionUpdate) -> SessionTime {
        let latest = of(session.terms).end(
            ofSessionMadeAt: session.createdAt, tokens: refresh.tokens ?? session.tokens)
        return min(refresh.endsBy?.sessionTime ?? session.expiresAt, latest)
    }

    /// Whether a session has expired, according to its own times.
    public func expiry(of session: Session, now: SessionTime) -> SessionEndReason? {
        of(session.terms).expiry(expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt, now: now)
    }

    /// When a session ends if it is not used again.
    public func deadline(of session: Session) -> SessionTime {
        of(session.terms).deadline(expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt)
    }

    /// The same, for times alone.
    public func deadline(expiresAt: SessionTime, lastUsedAt: SessionTime) -> SessionTime {
        min(expiresAt, later(lastUsedAt, idleMilliseconds))
    }

    /// Whether a session has expired.
    /// - Returns: The timeout that elapsed first, independent of when this is called; `nil` while the session is valid.
    public func expiry(expiresAt: SessionTime, lastUsedAt: SessionTime, now: SessionTime) -> SessionEndReason? {
        let idleEnd = later(lastUsedAt, idleMilliseconds)
        guard now >= min(expiresAt, idleEnd) else { return nil }
        return idleEnd < expiresAt ? .expiredIdle : .expiredAbsolute
    }

    /// Whether a use of a session has to be recorded.
    public func isTouchDue(of session: Session, now: SessionTime) -> Bool {
        of(session.terms).isTouchDue(lastUsedAt: session.lastUsedAt, now: now)
    }

    /// The same, for times alone.
    public func isTouchDue(lastUsedAt: SessionTime, now: SessionTime) -> Bool {
        let (passed, overflow) = now.milliseconds.subtractingReportingOverflow(lastUsedAt.milliseconds)
        return !overflow && passed > 0 && passed >= granularityMilliseconds
    }

    private func later(_ time: SessionTime, _ milliseconds: Int64) -> SessionTime {
        let (sum, overflow) = time.milliseconds.addingReportingOverflow(milliseconds)
        return SessionTime(milliseconds: overflow ? .max : sum)
    }
}

/// What applies to the sessions of an app in place of `session`. It is fixed at the sign-in: a session keeps it through
/// refreshes, reloads and restarts, also if the app is removed.
public struct SessionTerms: Sendable, Equatable {
    private let idleMilliseconds: Int64
    private let absoluteMilliseconds: Int64
    /// Whether the session is bound to a key of its device.
    public let device: DeviceConfiguration.Mode

    /// Creates the terms.
    public init(idle: Duration, absolute: Duration, device: DeviceConfiguration.Mode) {
        (idleMilliseconds, absoluteMilliseconds) = (idle.wholeMilliseconds, absolute.wholeMilliseconds)
        self.device = device
    }

    /// The maximum time without a use.
    public var idle: Duration { .milliseconds(idleMilliseconds) }
    /// The maximum lifetime.
    public var absolute: Duration { .milliseconds(absoluteMilliseconds) }
}

extension SessionEndReason {
    /// The reason reported to a client that presents the ticket of an expired session.
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

/// The clock for session times: the wall clock, except that it never moves backwards during the lifetime of the
/// process.
///
/// A wall clock that is set back would extend every session by the same amount. This type reads no clock: the caller
/// passes the offset between wall clock and monotonic clock, and receives the offset to use. A process has one
/// instance, so that all event loops and stores agree.
///
/// If replicas on several machines share their sessions, the plain wall clock is used: a process whose clock had once
/// been ahead would otherwise keep expiring the sessions of all others. The clocks of those machines have to be
/// synchronized; setting one back extends sessions by the same amount.
public final class SessionClock: Sendable {
    private let highest = Atomic<Int64>(.min)
    private let isMonotonic: Bool

    /// Creates a clock without a reading.
    /// - Parameter isMonotonic: Whether the clock never moves backwards.
    public init(isMonotonic: Bool = true) {
        self.isMonotonic = isMonotonic
    }

    /// Adds a reading.
    /// - Parameter offset: The wall clock's time minus the monotonic clock's, in nanoseconds.
    /// - Returns: The largest of all readings so far, to be added to the monotonic clock's time.
    public func monotonicOffset(_ offset: Int64) -> Int64 {
        guard isMonotonic else { return offset }
        return highest.max(offset, ordering: .relaxed).newValue
    }
}
