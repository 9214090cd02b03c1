/// One renewal of one session's tokens, from the wish to the kept result: what to do next, and when to give up.
///
/// It decides and does nothing. Whoever carries it out does one action after the other and tells what came of each with
/// the method that the action names; ``Action/finish(_:release:)`` is the last one.
///
/// Three rules keep a session from ending by a race: a refresh token is spent only under a lease (``Action/lease``), only
/// after the session has been read again under that lease (``Action/read``), and what it brought is kept only over the
/// version that was read and under the latest lease (``Action/save(_:over:under:)``). Once there are new tokens the old
/// refresh token is spent, so the flight does not rest until they are kept or ``RenewalLimits/keeping`` is over.
public struct RenewalFlight: Sendable {
    /// What is to be done next.
    public enum Action: Sendable {
        /// Ask the store for the lease; then ``leased(_:now:)``, or ``storeFailed(now:)``.
        case lease
        /// Read the session again, past the local table; then ``hasRead(_:now:)``, or ``storeFailed(now:)``.
        case read
        /// Let the time pass; then ``waited(now:)``.
        case wait(Duration)
        /// Spend the refresh token of this session; then ``renewed(_:now:)`` or ``notRenewed(_:now:)``.
        case renew(Session)
        /// Keep the tokens; then ``saved(_:now:)``, or ``storeFailed(now:)``.
        case save(SessionTokens, over: Session, under: RenewalLease)
        /// End the session, which the upstream refused; then ``rejected(_:now:)``, or ``storeFailed(now:)``.
        case reject(Session, under: RenewalLease)
        /// It is over. The lease, if there is one, is to be given back once nothing more is to be saved under it.
        case finish(Result, release: RenewalLease?)
    }

    /// How a flight ended.
    public enum Result: Sendable {
        /// This flight renewed the tokens.
        case renewed(Session)
        /// Somebody else had.
        case coalesced(Session)
        /// The upstream refused for good, and the session is ended.
        case rejected
        /// The session was over, whoever ended it. New tokens that nobody needs any more are to be made void.
        case ended(UnauthorizedReason, unused: SessionTokens?)
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
        case leasing, reading, waiting, renewing, saving, rejecting, finished
    }

    private let limits: RenewalLimits
    /// The tokens that are of no more use. Others than these have been renewed.
    private let stale: SessionTokens
    private let deadline: Timestamp
    private var phase = Phase.leasing
    private var lease: RenewalLease?
    /// When the lease was asked for: it is good from some moment after this.
    private var leaseAskedAt: Timestamp
    /// The session as it was read last under the lease.
    private var current: Session?
    /// New tokens that are not kept yet, and until when to try.
    private var unkept: (tokens: SessionTokens, until: Timestamp)?
    /// Whether the upstream has refused for good.
    private var isRefused = false
    private var failures = 0

    /// Begins a flight. Its first action is ``Action/lease``.
    /// - Parameter session: The session with the tokens that are of no more use.
    public init(_ session: Session, limits: RenewalLimits, now: Timestamp) {
        self.limits = limits
        stale = session.tokens
        deadline = now + limits.waiting
        leaseAskedAt = now
    }

    // MARK: - Events

    /// The store has answered ``Action/lease``.
    public mutating func leased(_ attempt: LeaseAttempt, now: Timestamp) -> Action {
        guard phase == .leasing else { return impossible() }
        switch attempt {
        case .held(let lease):
            self.lease = lease
            return read()
        case .taken:
            return now < patience ? wait() : finish(.leaseTimeout)
        case .gone:
            // Counted: a store that goes on to find it when it is read must not be asked without end.
            return readAgain(now)
        }
    }

    /// The store has answered ``Action/read``.
    public mutating func hasRead(_ lookup: SessionLookup, now: Timestamp) -> Action {
        guard phase == .reading else { return impossible() }
        switch lookup {
        case .none(let reason):
            return finish(.ended(reason, unused: unkept?.tokens))
        case .unknown:
            return storeFailure(now)
        case .live(let session):
            current = session
            // Kept already: only the store's answer was lost.
            if let unkept, session.tokens.isSame(as: unkept.tokens) { return finish(.renewed(session)) }
            guard session.tokens.isSame(as: stale) else { return finish(.coalesced(session)) }
            guard let lease else { return now < patience ? askForLease(now) : finish(.leaseTimeout) }
            if let unkept { return save(unkept.tokens, over: session, under: lease) }
            if isRefused { return reject(session, under: lease) }
            // The call must be over before the lease is. A store that took so long is as good as not there.
            guard now + limits.call < leaseAskedAt + limits.lease else { return finish(.storeUnavailable) }
            phase = .renewing
            return .renew(session)
        }
    }

    /// The pause of ``Action/wait(_:)`` is over.
    public mutating func waited(now: Timestamp) -> Action {
        guard phase == .waiting else { return impossible() }
        return read()
    }

    /// The upstream gave new tokens.
    public mutating func renewed(_ tokens: SessionTokens, now: Timestamp) -> Action {
        guard phase == .renewing, let current, let lease else { return impossible() }
        unkept = (tokens, now + limits.keeping)
        return save(tokens, over: current, under: lease)
    }

    /// The upstream gave none.
    public mutating func notRenewed(_ kind: TokenClientError.Kind, now: Timestamp) -> Action {
        guard phase == .renewing, let current, let lease else { return impossible() }
        guard kind == .rejected else { return finish(.unavailable(kind)) }
        isRefused = true
        return reject(current, under: lease)
    }

    /// The store has answered ``Action/save(_:over:under:)``.
    public mutating func saved(_ attempt: SaveAttempt, now: Timestamp) -> Action {
        guard phase == .saving else { return impossible() }
        switch attempt {
        case .saved(let session): return finish(.renewed(session))
        case .changed: break
        // Whoever has the lease now has spent the same refresh token, or is about to: what they get counts.
        case .fenced, .gone: lease = nil
        }
        return readAgain(now)
    }

    /// The store has answered ``Action/reject(_:under:)``.
    public mutating func rejected(_ attempt: RejectAttempt, now: Timestamp) -> Action {
        guard phase == .rejecting else { return impossible() }
        switch attempt {
        case .ended: return finish(.rejected)
        case .changed, .gone: return readAgain(now)
        }
    }

    /// The store could not be reached, or did not answer: whether it did what it was asked is not known.
    public mutating func storeFailed(now: Timestamp) -> Action {
        switch phase {
        case .leasing, .reading, .saving, .rejecting: storeFailure(now)
        case .waiting, .renewing, .finished: impossible()
        }
    }

    // MARK: - Steps

    /// How long to wait for others: longer where there are new tokens to keep.
    private var patience: Timestamp { max(deadline, unkept?.until ?? deadline) }

    private mutating func askForLease(_ now: Timestamp) -> Action {
        phase = .leasing
        leaseAskedAt = now
        return .lease
    }

    private mutating func read() -> Action {
        phase = .reading
        return .read
    }

    private mutating func wait() -> Action {
        phase = .waiting
        return .wait(limits.pause)
    }

    private mutating func save(_ tokens: SessionTokens, over session: Session, under lease: RenewalLease) -> Action {
        phase = .saving
        return .save(tokens, over: session, under: lease)
    }

    private mutating func reject(_ session: Session, under lease: RenewalLease) -> Action {
        phase = .rejecting
        return .reject(session, under: lease)
    }

    private mutating func readAgain(_ now: Timestamp) -> Action {
        failures += 1
        return failures < Self.attempts ? read() : storeFailure(now)
    }

    private mutating func storeFailure(_ now: Timestamp) -> Action {
        guard let unkept, now < unkept.until else { return finish(.storeUnavailable) }
        failures += 1
        phase = .waiting
        // Up to a second and a half: a store that comes back is not to be met by a crowd.
        return .wait(limits.pause * (1 << min(failures, 5)))
    }

    private mutating func finish(_ result: Result) -> Action {
        phase = .finished
        defer { lease = nil }
        return .finish(result, release: lease)
    }

    /// An event that cannot happen in this phase is a mistake of ours; the session stays as it is.
    private mutating func impossible() -> Action {
        assertionFailure("a renewal was told something that it did not ask for")
        return finish(.storeUnavailable)
    }
}

/// Times of a renewal.
public struct RenewalLimits: Sendable, Equatable {
    /// How long the call to the upstream may take.
    public var call: Duration
    /// How long a lease is good: longer than ``call`` by what the store may take in between.
    public var lease: Duration
    /// How long a flight waits for another one's lease.
    public var waiting: Duration
    /// How long a flight tries to keep new tokens where the store is not there.
    public var keeping: Duration
    /// How long a flight pauses before it looks again.
    public var pause: Duration

    /// Makes limits.
    public init(
        call: Duration, lease: Duration, waiting: Duration, keeping: Duration = .seconds(300),
        pause: Duration = .milliseconds(50)
    ) {
        self.call = call
        self.lease = lease
        self.waiting = waiting
        self.keeping = keeping
        self.pause = pause
    }

    /// The limits that go with a plan's timeouts: the lease outlives the call by 5 seconds, and who waits for another's
    /// lease waits until it must have ended.
    public init(_ timeouts: TimeoutsPlan) {
        self.init(
            call: timeouts.identity, lease: timeouts.identity + .seconds(5), waiting: timeouts.identity + .seconds(6))
    }
}

extension SessionTokens {
    /// Whether these are the tokens of one and the same answer.
    func isSame(as other: SessionTokens) -> Bool {
        authorization == other.authorization && refreshToken == other.refreshToken
    }
}
