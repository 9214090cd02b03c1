/// The refresh of one session's tokens, from the request to the saved result: which action is next, and when to give
/// up.
///
/// Pure state machine, no I/O. The caller executes one action after the other and reports each result with the method
/// that the action names; ``Action/finish(_:release:)`` is the last action.
///
/// Three rules prevent a race from ending a session: a refresh token is spent only under a lease (``Action/lease``),
/// only after the session has been read again under that lease (``Action/read``), and new tokens are saved only over
/// the version that was read and under the latest lease (``Action/save(_:over:under:)``). Once there are new tokens,
/// the old refresh token is spent. Saving is therefore retried until it succeeds or ``RefreshTimeouts/saveRetryPeriod`` has
/// elapsed.
///
/// Folder `TokenRefresh/`: decides when tokens are refreshed and in which steps; `CloakroomIdentity` performs the
/// steps.
public struct TokenRefreshStateMachine: Sendable {
    /// The next action of the caller.
    public enum Action: Sendable {
        /// Request the lease from the store; then call ``leased(_:now:)`` or ``storeFailed(now:)``.
        case lease
        /// Read the session again, bypassing the local cache; then call ``sessionRead(_:now:)`` or ``storeFailed(now:)``.
        case read
        /// Wait for the duration; then call ``waited(now:)``.
        case wait(Duration)
        /// Spend the refresh token of this session; then call ``refreshed(_:now:)`` or ``refreshFailed(_:now:)``.
        case refresh(Session)
        /// Save the tokens; then call ``saved(_:now:)`` or ``storeFailed(now:)``.
        case save(SessionUpdate, over: Session, under: RefreshLease)
        /// End the session, whose refresh the upstream rejected; then call ``rejected(_:now:)`` or
        /// ``storeFailed(now:)``.
        case reject(Session, under: RefreshLease)
        /// The refresh is complete. Release the lease, if there is one, once nothing more is to be saved under it.
        case finish(Result, release: RefreshLease?)
    }

    /// The result of a refresh.
    public enum Result: Sendable {
        /// This refresh obtained new tokens.
        case refreshed(Session)
        /// Another task or replica had refreshed the tokens.
        case coalesced(Session)
        /// The upstream rejected the refresh token, and the session was ended.
        case rejected
        /// The session had ended for another reason. New tokens that are not needed any more have to be revoked.
        case ended(UnauthorizedReason, unused: TokenSet?)
        /// The upstream could not refresh the tokens now.
        case unavailable(TokenClientError.Kind)
        /// The store could not be reached.
        case storeUnavailable
        /// Another task or replica held the lease for too long.
        case leaseTimeout
    }

    /// The maximum number of attempts to save over a session that keeps changing. After them the store counts as
    /// unavailable.
    private static let attempts = 8

    private enum Phase: Equatable {
        case leasing, reading, waiting, refreshing, saving, rejecting, finished
    }

    private let limits: RefreshTimeouts
    /// The tokens to be replaced. Different tokens in the session mean that it has been refreshed.
    private let stale: TokenSet
    private let deadline: MonotonicTime
    private var phase = Phase.leasing
    private var lease: RefreshLease?
    /// When the lease was requested; it is granted at some time after this.
    private var leaseRequestedAt: MonotonicTime
    /// The session as last read under the lease.
    private var current: Session?
    /// New tokens that are not saved yet, and until when to retry.
    private var unsavedTokens: (update: SessionUpdate, tokens: TokenSet, until: MonotonicTime)?
    /// Whether the upstream has rejected the refresh token.
    private var isRejected = false
    private var failures = 0

    /// Starts a refresh. The first action is ``Action/lease``.
    /// - Parameter session: The session with the tokens to be replaced.
    public init(_ session: Session, limits: RefreshTimeouts, now: MonotonicTime) {
        self.limits = limits
        stale = session.tokens
        deadline = now + limits.leaseWait
        leaseRequestedAt = now
    }

    // MARK: - Events

    /// Handles the store's result of ``Action/lease``.
    public mutating func leased(_ attempt: LeaseResult, now: MonotonicTime) -> Action {
        guard phase == .leasing else { return invalidTransition() }
        switch attempt {
        case .acquired(let lease):
            self.lease = lease
            return read()
        case .heldByOther:
            return now < waitDeadline ? wait() : finish(.leaseTimeout)
        case .notFound:
            // Counted as an attempt, because a store might keep finding the session when it is read, and the loop must
            // end.
            return readAgain(now)
        }
    }

    /// Handles the store's result of ``Action/read``.
    public mutating func sessionRead(_ lookup: SessionLookup, now: MonotonicTime) -> Action {
        guard phase == .reading else { return invalidTransition() }
        switch lookup {
        case .missing(let reason):
            return finish(.ended(reason, unused: unsavedTokens?.tokens))
        case .notCached:
            return storeFailure(now)
        case .active(let session):
            current = session
            // Already saved: only the store's reply was lost.
            if let unsavedTokens, session.tokens.isSame(as: unsavedTokens.tokens) { return finish(.refreshed(session)) }
            guard session.tokens.isSame(as: stale) else { return finish(.coalesced(session)) }
            guard let lease else { return now < waitDeadline ? askForLease(now) : finish(.leaseTimeout) }
            if let unsavedTokens { return save(unsavedTokens.update, over: session, under: lease) }
            if isRejected { return reject(session, under: lease) }
            // The call must end before the lease does. A store that is this slow counts as unavailable.
            guard now + limits.call < leaseRequestedAt + limits.lease else { return finish(.storeUnavailable) }
            phase = .refreshing
            return .refresh(session)
        }
    }

    /// The wait of ``Action/wait(_:)`` is over.
    public mutating func waited(now: MonotonicTime) -> Action {
        guard phase == .waiting else { return invalidTransition() }
        return read()
    }

    /// The upstream returned an update with new tokens.
    public mutating func refreshed(_ update: SessionUpdate, now: MonotonicTime) -> Action {
        guard phase == .refreshing, let current, let lease, let tokens = update.tokens else {
            return invalidTransition()
        }
        unsavedTokens = (update, tokens, now + limits.saveRetryPeriod)
        return save(update, over: current, under: lease)
    }

    /// The upstream returned no tokens.
    public mutating func refreshFailed(_ kind: TokenClientError.Kind, now: MonotonicTime) -> Action {
        guard phase == .refreshing, let current, let lease else { return invalidTransition() }
        guard kind == .rejected else { return finish(.unavailable(kind)) }
        isRejected = true
        return reject(current, under: lease)
    }

    /// Handles the store's result of ``Action/save(_:over:under:)``.
    public mutating func saved(_ attempt: SaveResult, now: MonotonicTime) -> Action {
        guard phase == .saving else { return invalidTransition() }
        switch attempt {
        case .saved(let session): return finish(.refreshed(session))
        case .versionConflict: break
        // The holder of the later lease has spent the same refresh token or will do so: its result counts.
        case .staleLease, .notFound: lease = nil
        }
        return readAgain(now)
    }

    /// Handles the store's result of ``Action/reject(_:under:)``.
    public mutating func rejected(_ attempt: RejectResult, now: MonotonicTime) -> Action {
        guard phase == .rejecting else { return invalidTransition() }
        switch attempt {
        case .ended: return finish(.rejected)
        case .versionConflict, .notFound: return readAgain(now)
        }
    }

    /// The store could not be reached or did not reply: it is unknown whether it executed the operation.
    public mutating func storeFailed(now: MonotonicTime) -> Action {
        switch phase {
        case .leasing, .reading, .saving, .rejecting: storeFailure(now)
        case .waiting, .refreshing, .finished: invalidTransition()
        }
    }

    /// The latest time at which the user may be fetched with new tokens that are not saved yet. The call takes up to
    /// three seconds, and the tokens have to be saved before the lease ends.
    public var userDeadline: MonotonicTime { leaseRequestedAt + limits.call }

    // MARK: - Steps

    /// The deadline for waiting on other lease holders: later if there are new tokens to save.
    private var waitDeadline: MonotonicTime { max(deadline, unsavedTokens?.until ?? deadline) }

    private mutating func askForLease(_ now: MonotonicTime) -> Action {
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

    private mutating func save(_ update: SessionUpdate, over session: Session, under lease: RefreshLease) -> Action {
        phase = .saving
        return .save(update, over: session, under: lease)
    }

    private mutating func reject(_ session: Session, under lease: RefreshLease) -> Action {
        phase = .rejecting
        return .reject(session, under: lease)
    }

    private mutating func readAgain(_ now: MonotonicTime) -> Action {
        failures += 1
        return failures < Self.attempts ? read() : storeFailure(now)
    }

    private mutating func storeFailure(_ now: MonotonicTime) -> Action {
        guard let unsavedTokens, now < unsavedTokens.until else { return finish(.storeUnavailable) }
        failures += 1
        phase = .waiting
        // At most 1.6 s: a store that recovers must not receive many requests at the same time.
        return .wait(limits.retryDelay * (1 << min(failures, 5)))
    }

    private mutating func finish(_ result: Result) -> Action {
        phase = .finished
        defer { lease = nil }
        return .finish(result, release: lease)
    }

    /// An event that is invalid in this phase is a programming error; the session is not changed.
    private mutating func invalidTransition() -> Action {
        assertionFailure("unexpected token refresh event")
        return finish(.storeUnavailable)
    }
}

/// Timeouts of a refresh.
public struct RefreshTimeouts: Sendable, Equatable {
    /// The timeout of the call to the upstream.
    public var call: Duration
    /// The duration of a lease: ``call`` plus the time that store operations in between may take.
    public var lease: Duration
    /// How long to wait for the lease of another holder.
    public var leaseWait: Duration
    /// How long saving new tokens is retried if the store is unavailable.
    public var saveRetryPeriod: Duration
    /// The delay between attempts.
    public var retryDelay: Duration

    package init(
        call: Duration, lease: Duration, waiting: Duration, keeping: Duration = .seconds(300),
        pause: Duration = .milliseconds(50)
    ) {
        self.call = call
        self.lease = lease
        self.leaseWait = waiting
        self.saveRetryPeriod = keeping
        self.retryDelay = pause
    }

    /// Derives the timeouts from a configuration: the lease is 5 seconds longer than the call, and the wait for another
    /// holder's lease lasts until that lease must have expired.
    public init(_ timeouts: TimeoutsConfiguration) {
        self.init(
            call: timeouts.identity, lease: timeouts.identity + .seconds(5), waiting: timeouts.identity + .seconds(6))
    }
}

extension TokenSet {
    /// Whether both token sets are from the same token response.
    func isSame(as other: TokenSet) -> Bool {
        authorization == other.authorization && refreshToken == other.refreshToken
    }
}
