/// One renewal of one session's tokens, from the wish to the kept result: what to do next, and when to give up.
///
/// It decides and does nothing. Whoever carries it out does one action after the other and tells what came of each with
/// the method that the action names; ``Action/finish(_:release:)`` is the last one.
///
/// Three rules keep a session from ending by a race: a refresh token is spent only under a lease (``Action/lease``), only
/// after the session has been read again under that lease (``Action/read``), and what it brought is kept only over the
/// version that was read and under the latest lease (``Action/save(_:over:under:)``). Once there are new tokens the old
/// refresh token is spent, so the flight does not rest until they are kept or ``RefreshTimeouts/saveRetryPeriod`` is over.
public struct TokenRefreshStateMachine: Sendable {
    /// What is to be done next.
    public enum Action: Sendable {
        /// Ask the store for the lease; then ``leased(_:now:)``, or ``storeFailed(now:)``.
        case lease
        /// Read the session again, past the local table; then ``sessionRead(_:now:)``, or ``storeFailed(now:)``.
        case read
        /// Let the time pass; then ``waited(now:)``.
        case wait(Duration)
        /// Spend the refresh token of this session; then ``renewed(_:now:)`` or ``refreshFailed(_:now:)``.
        case refresh(Session)
        /// Keep the tokens; then ``saved(_:now:)``, or ``storeFailed(now:)``.
        case save(TokenSet, over: Session, under: RefreshLease)
        /// End the session, which the upstream refused; then ``rejected(_:now:)``, or ``storeFailed(now:)``.
        case reject(Session, under: RefreshLease)
        /// It is over. The lease, if there is one, is to be given back once nothing more is to be saved under it.
        case finish(Result, release: RefreshLease?)
    }

    /// How a flight ended.
    public enum Result: Sendable {
        /// This flight renewed the tokens.
        case refreshed(Session)
        /// Somebody else had.
        case coalesced(Session)
        /// The upstream refused for good, and the session is ended.
        case rejected
        /// The session was over, whoever ended it. New tokens that nobody needs any more are to be made void.
        case ended(UnauthorizedReason, unused: TokenSet?)
        /// The upstream could not renew now.
        case unavailable(TokenClientError.Kind)
        /// The store could not be reached.
        case storeUnavailable
        /// Somebody else held the lease for too long.
        case leaseTimeout
    }

    /// Attempts to write over a session that changes again and again, before the store counts as unavailable.
    private static let attempts = 8

    private enum Phase: Equatable {
        case leasing, reading, waiting, refreshing, saving, rejecting, finished
    }

    private let limits: RefreshTimeouts
    /// The tokens that are of no more use. Others than these have been renewed.
    private let stale: TokenSet
    private let deadline: Timestamp
    private var phase = Phase.leasing
    private var lease: RefreshLease?
    /// When the lease was asked for: it is good from some moment after this.
    private var leaseRequestedAt: Timestamp
    /// The session as it was read last under the lease.
    private var current: Session?
    /// New tokens that are not kept yet, and until when to try.
    private var unsavedTokens: (tokens: TokenSet, until: Timestamp)?
    /// Whether the upstream has refused for good.
    private var isRejected = false
    private var failures = 0

    /// Begins a flight. Its first action is ``Action/lease``.
    /// - Parameter session: The session with the tokens that are of no more use.
    public init(_ session: Session, limits: RefreshTimeouts, now: Timestamp) {
        self.limits = limits
        stale = session.tokens
        deadline = now + limits.leaseWait
        leaseRequestedAt = now
    }

    // MARK: - Events

    /// The store has answered ``Action/lease``.
    public mutating func leased(_ attempt: LeaseResult, now: Timestamp) -> Action {
        guard phase == .leasing else { return invalidTransition() }
        switch attempt {
        case .acquired(let lease):
            self.lease = lease
            return read()
        case .heldByOther:
            return now < waitDeadline ? wait() : finish(.leaseTimeout)
        case .notFound:
            // Counted: a store that goes on to find it when it is read must not be asked without end.
            return readAgain(now)
        }
    }

    /// The store has answered ``Action/read``.
    public mutating func sessionRead(_ lookup: SessionLookup, now: Timestamp) -> Action {
        guard phase == .reading else { return invalidTransition() }
        switch lookup {
        case .missing(let reason):
            return finish(.ended(reason, unused: unsavedTokens?.tokens))
        case .notCached:
            return storeFailure(now)
        case .active(let session):
            current = session
            // Kept already: only the store's answer was lost.
            if let unsavedTokens, session.tokens.isSame(as: unsavedTokens.tokens) { return finish(.refreshed(session)) }
            guard session.tokens.isSame(as: stale) else { return finish(.coalesced(session)) }
            guard let lease else { return now < waitDeadline ? askForLease(now) : finish(.leaseTimeout) }
            if let unsavedTokens { return save(unsavedTokens.tokens, over: session, under: lease) }
            if isRejected { return reject(session, under: lease) }
            // The call must be over before the lease is. A store that took so long is as good as not there.
            guard now + limits.call < leaseRequestedAt + limits.lease else { return finish(.storeUnavailable) }
            phase = .refreshing
            return .refresh(session)
        }
    }

    /// The pause of ``Action/wait(_:)`` is over.
    public mutating func waited(now: Timestamp) -> Action {
        guard phase == .waiting else { return invalidTransition() }
        return read()
    }

    /// The upstream gave new tokens.
    public mutating func refreshed(_ tokens: TokenSet, now: Timestamp) -> Action {
        guard phase == .refreshing, let current, let lease else { return invalidTransition() }
        unsavedTokens = (tokens, now + limits.saveRetryPeriod)
        return save(tokens, over: current, under: lease)
    }

    /// The upstream gave none.
    public mutating func refreshFailed(_ kind: TokenClientError.Kind, now: Timestamp) -> Action {
        guard phase == .refreshing, let current, let lease else { return invalidTransition() }
        guard kind == .rejected else { return finish(.unavailable(kind)) }
        isRejected = true
        return reject(current, under: lease)
    }

    /// The store has answered ``Action/save(_:over:under:)``.
    public mutating func saved(_ attempt: SaveResult, now: Timestamp) -> Action {
        guard phase == .saving else { return invalidTransition() }
        switch attempt {
        case .saved(let session): return finish(.refreshed(session))
        case .versionConflict: break
        // Whoever has the lease now has spent the same refresh token, or is about to: what they get counts.
        case .staleLease, .notFound: lease = nil
        }
        return readAgain(now)
    }

    /// The store has answered ``Action/reject(_:under:)``.
    public mutating func rejected(_ attempt: RejectResult, now: Timestamp) -> Action {
        guard phase == .rejecting else { return invalidTransition() }
        switch attempt {
        case .ended: return finish(.rejected)
        case .versionConflict, .notFound: return readAgain(now)
        }
    }

    /// The store could not be reached, or did not answer: whether it did what it was asked is not known.
    public mutating func storeFailed(now: Timestamp) -> Action {
        switch phase {
        case .leasing, .reading, .saving, .rejecting: storeFailure(now)
        case .waiting, .refreshing, .finished: invalidTransition()
        }
    }

    // MARK: - Steps

    /// How long to wait for others: longer where there are new tokens to keep.
    private var waitDeadline: Timestamp { max(deadline, unsavedTokens?.until ?? deadline) }

    private mutating func askForLease(_ now: Timestamp) -> Action {
        phase = .leasing
        leaseRequestedAt = now
        return .lease
    }

    private mutating func read() -> Action {
        phase = .reading
        return .read
    }

    private mutating func wait() -> Action {
        phase = .waiting
        return .wait(limits.retryDelay)
    }

    private mutating func save(_ tokens: TokenSet, over session: Session, under lease: RefreshLease) -> Action {
        phase = .saving
        return .save(tokens, over: session, under: lease)
    }

    private mutating func reject(_ session: Session, under lease: RefreshLease) -> Action {
        phase = .rejecting
        return .reject(session, under: lease)
    }

    private mutating func readAgain(_ now: Timestamp) -> Action {
        failures += 1
        return failures < Self.attempts ? read() : storeFailure(now)
    }

    private mutating func storeFailure(_ now: Timestamp) -> Action {
        guard let unsavedTokens, now < unsavedTokens.until else { return finish(.storeUnavailable) }
        failures += 1
        phase = .waiting
        // Up to a second and a half: a store that comes back is not to be met by a crowd.
        return .wait(limits.retryDelay * (1 << min(failures, 5)))
    }

    private mutating func finish(_ result: Result) -> Action {
        phase = .finished
        defer { lease = nil }
        return .finish(result, release: lease)
    }

    /// An event that cannot happen in this phase is a mistake of ours; the session stays as it is.
    private mutating func invalidTransition() -> Action {
        assertionFailure("a renewal was told something that it did not ask for")
        return finish(.storeUnavailable)
    }
}

/// Times of a renewal.
public struct RefreshTimeouts: Sendable, Equatable {
    /// How long the call to the upstream may take.
    public var call: Duration
    /// How long a lease is good: longer than ``call`` by what the store may take in between.
    public var lease: Duration
    /// How long a flight waits for another one's lease.
    public var leaseWait: Duration
    /// How long a flight tries to keep new tokens where the store is not there.
    public var saveRetryPeriod: Duration
    /// How long a flight pauses before it looks again.
    public var retryDelay: Duration

    /// Makes limits.
    public init(
        call: Duration, lease: Duration, waiting: Duration, keeping: Duration = .seconds(300),
        pause: Duration = .milliseconds(50)
    ) {
        self.call = call
        self.lease = lease
        self.leaseWait = waiting
        self.saveRetryPeriod = keeping
        self.retryDelay = pause
    }

    /// The limits that go with a plan's timeouts: the lease outlives the call by 5 seconds, and who waits for another's
    /// lease waits until it must have ended.
    public init(_ timeouts: TimeoutsConfiguration) {
        self.init(
            call: timeouts.identity, lease: timeouts.identity + .seconds(5), waiting: timeouts.identity + .seconds(6))
    }
}

extension TokenSet {
    /// Whether these are the tokens of one and the same answer.
    func isSame(as other: TokenSet) -> Bool {
        authorization == other.authorization && refreshToken == other.refreshToken
    }
}
