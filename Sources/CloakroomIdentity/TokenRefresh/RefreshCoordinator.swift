import CloakroomCore

/// Tracks the refreshes in progress in this process, the requests that wait for them, and the sessions in back-off.
///
/// Performs no I/O. The caller that starts a refresh also runs it and reports its result with
/// ``complete(_:_:isTransient:isRefreshed:now:)`` and ``finish(_:now:)``. The caller that receives waiters resumes them.
///
/// A refresh is identified by the whole key of its session. The key contains the complete digest of the ticket, so two
/// sessions never share a refresh. The tokens of a session have one source, so the key identifies that too.
struct RefreshCoordinator {
    enum WaitResult: Sendable {
        /// An outcome that was known immediately.
        case immediate(RefreshOutcome)
        case completed(RefreshOutcome)
    }

    typealias Waiter = CheckedContinuation<WaitResult, Never>

    /// The identity of one refresh in progress.
    struct RefreshID: Sendable, Hashable {
        let session: SessionKey
        let number: UInt64
    }

    /// How a request gets its outcome.
    enum Admission {
        /// The request waits for a refresh in progress.
        case joinedExisting
        /// The caller runs this refresh, for which the request waits.
        case started(RefreshID)
        /// Known without a refresh.
        case result(RefreshOutcome)
    }

    /// The minimum interval between refreshes for ``RefreshTrigger/rejected``. An upstream that rejects tokens younger
    /// than this does so for a reason that another refresh does not remove.
    static let rejectionRetryInterval = Duration.seconds(5)

    private struct ActiveRefresh {
        let id: RefreshID
        let cause: RefreshTrigger
        var waiters: [UInt64: Waiter] = [:]
        /// The outcome of the refresh; the remaining work then concerns no request.
        var outcome: RefreshOutcome?
    }

    private struct Entry {
        var activeRefresh: ActiveRefresh?
        var backoff = RefreshBackoff()
        /// When a refresh for ``RefreshTrigger/rejected`` last returned new tokens.
        var rejectionRefreshedAt: WallTime?

        func isExpired(at now: WallTime) -> Bool {
            activeRefresh == nil && backoff.isExpired(at: now) && !isPausing(at: now)
        }

        func isPausing(at now: WallTime) -> Bool {
            guard let rejectionRefreshedAt else { return false }
            return now >= rejectionRefreshedAt && now - rejectionRefreshedAt < RefreshCoordinator.rejectionRetryInterval
        }
    }

    private let bounds: RefreshLimits
    private var entries: [SessionKey: Entry] = [:]
    private var sweepAt = 1_024
    private var nextNumber: UInt64 = 0
    private var shutdownContinuations: [AsyncStream<Void>.Continuation] = []
    /// The number of refreshes in progress, including their remaining work after the outcome.
    private(set) var inFlightCount = 0
    private(set) var waiterCount = 0
    /// Whether no more refreshes are started.
    private(set) var isStopping = false

    init(_ bounds: RefreshLimits) {
        self.bounds = bounds
    }

    var count: Int { entries.count }

    // MARK: - Starting

    /// Adds a request to the waiters of a refresh, or returns the outcome for it.
    /// - Parameter number: Identifies the request for ``cancelWaiter(_:of:)``; unique per request.
    mutating func join(
        _ session: Session, cause: RefreshTrigger, waiter: Waiter, number: UInt64, now: WallTime
    ) -> Admission {
        let key = session.key
        let cause = effectiveCause(cause, of: session, now: now)
        let activeRefresh = entries[key]?.activeRefresh
        if let outcome = activeRefresh?.outcome, let response = Self.result(to: session, after: outcome) {
            return .result(response)
        }
        let isInProgress = activeRefresh.map { $0.outcome == nil } ?? false
        if !isInProgress, let response = admissionRejection(session, cause: cause, now: now) {
            return .result(response)
        }
        guard waiterCount < bounds.waiters, (activeRefresh?.waiters.count ?? 0) < bounds.waitersPerSession else {
            return .result(Self.busy)
        }
        let started = isInProgress ? nil : insert(key, cause: cause, now: now)
        entries[key]?.activeRefresh?.waiters[number] = waiter
        waiterCount += 1
        return started.map(Admission.started) ?? .joinedExisting
    }

    /// If the token's age explains a rejection, the rejection does not show that the upstream rejects fresh tokens:
    /// ``rejectionRetryInterval`` does not apply where ``RefreshSchedule/minimumInterval`` delayed the refresh.
    private func effectiveCause(_ cause: RefreshTrigger, of session: Session, now: WallTime) -> RefreshTrigger {
        session.hasAgedAccessToken(at: now) && session.update.urgency(at: now) == .none ? .expired : cause
    }

    /// Starts a refresh without waiters.
    /// - Returns: `nil` if one is in progress, or none is allowed.
    mutating func begin(_ session: Session, cause: RefreshTrigger, now: WallTime) -> RefreshID? {
        guard entries[session.key]?.activeRefresh == nil, admissionRejection(session, cause: cause, now: now) == nil
        else { return nil }
        return insert(session.key, cause: cause, now: now)
    }

    /// Whether a session's rejected tokens were refreshed too recently to refresh them again.
    func isWithinRetryInterval(_ session: Session, now: WallTime) -> Bool {
        entries[session.key].map { isWithinRetryInterval(session, $0, now: now) } ?? false
    }

    private func isWithinRetryInterval(_ session: Session, _ entry: Entry, now: WallTime) -> Bool {
        // Tokens that are due for a refresh may have been rejected for their age.
        entry.isPausing(at: now) && now - session.tokens.issuedAt < Self.rejectionRetryInterval
            && !session.hasAgedAccessToken(at: now)
    }

    private func admissionRejection(_ session: Session, cause: RefreshTrigger, now: WallTime) -> RefreshOutcome? {
        if let entry = entries[session.key] {
            if cause == .rejected, isWithinRetryInterval(session, entry, now: now) { return .active(session) }
            if let problem = entry.backoff.result(at: now) { return .failed(problem) }
        }
        return isStopping || inFlightCount >= bounds.concurrentRefreshes ? Self.busy : nil
    }

    /// The outcome of a refresh that is finishing its remaining work, for a new request.
    /// - Returns: `nil` if the request needs a new refresh.
    private static func result(to session: Session, after outcome: RefreshOutcome) -> RefreshOutcome? {
        switch outcome {
        case .active(let refreshed): refreshed.isRefresh(of: session) ? outcome : nil
        case .ended: outcome
        case .failed: nil
        }
    }

    private mutating func insert(_ key: SessionKey, cause: RefreshTrigger, now: WallTime) -> RefreshID {
        if entries[key] == nil, entries.count >= sweepAt { sweep(now: now) }
        nextNumber += 1
        let id = RefreshID(session: key, number: nextNumber)
        entries[key, default: Entry()].activeRefresh = ActiveRefresh(id: id, cause: cause)
        inFlightCount += 1
        return id
    }

    /// Removes expired entries each time the number of entries has doubled since the last removal.
    private mutating func sweep(now: WallTime) {
        entries = entries.filter { !$0.value.isExpired(at: now) }
        sweepAt = max(1_024, entries.count * 2)
    }

    // MARK: - Waiting

    /// Removes a request from the waiters.
    mutating func cancelWaiter(_ number: UInt64, of key: SessionKey) -> Waiter? {
        guard let waiter = entries[key]?.activeRefresh?.waiters.removeValue(forKey: number) else { return nil }
        waiterCount -= 1
        return waiter
    }

    /// Removes and returns all waiters of a refresh when their wait ends.
    mutating func expireWaiters(of id: RefreshID) -> [Waiter] {
        guard entries[id.session]?.activeRefresh?.id == id else { return [] }
        return takeWaiters(of: id.session)
    }

    private mutating func takeWaiters(of key: SessionKey) -> [Waiter] {
        let waiters = entries[key]?.activeRefresh?.waiters ?? [:]
        entries[key]?.activeRefresh?.waiters = [:]
        waiterCount -= waiters.count
        return Array(waiters.values)
    }

    // MARK: - Ending

    /// Completes a refresh with its outcome.
    /// - Parameters:
    ///   - isTransient: Whether the refresh is retried after a back-off.
    ///   - isRefreshed: Whether this refresh returned new tokens.
    /// - Returns: The waiters and their outcome, which includes the time of the next attempt.
    mutating func complete(
        _ id: RefreshID, _ outcome: RefreshOutcome, isTransient: Bool = false, isRefreshed: Bool = false, now: WallTime
    ) -> ([Waiter], RefreshOutcome) {
        guard let activeRefresh = entries[id.session]?.activeRefresh, activeRefresh.id == id else {
            return ([], outcome)
        }
        if isTransient, case .failed(let problem) = outcome {
            // Each session uses its own bits, and different bits in each refresh.
            let spread = id.session.word2 >> (8 * (id.number & 7))
            entries[id.session]?.backoff.note(problem, spread: spread, now: now)
        } else {
            entries[id.session]?.backoff = RefreshBackoff()
        }
        if isRefreshed, activeRefresh.cause == .rejected { entries[id.session]?.rejectionRefreshedAt = now }
        entries[id.session]?.activeRefresh?.outcome = outcome
        let failure = entries[id.session]?.backoff.result(at: now)
        return (takeWaiters(of: id.session), failure.map { .failed($0) } ?? outcome)
    }

    /// Removes a refresh after its remaining work.
    mutating func finish(_ id: RefreshID, now: WallTime) {
        inFlightCount -= 1
        // A new refresh of the session may have started since this one completed.
        if entries[id.session]?.activeRefresh?.id == id {
            entries[id.session]?.activeRefresh = nil
            let isExpired = entries[id.session]?.isExpired(at: now) ?? true
            if isExpired || entries.count - inFlightCount > bounds.trackedSessions { entries[id.session] = nil }
        }
        guard inFlightCount == 0 else { return }
        for landing in shutdownContinuations { landing.finish() }
        shutdownContinuations = []
    }

    /// Rejects all further refreshes.
    /// - Returns: A stream that ends with the last refresh.
    mutating func stop() -> AsyncStream<Void> {
        isStopping = true
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        if inFlightCount == 0 { continuation.finish() } else { shutdownContinuations.append(continuation) }
        return stream
    }

    /// The outcome if there are too many waiters or refreshes, or the wait takes too long.
    static let busy = RefreshOutcome.unavailable(status: 503, retryAfter: 1)
}

extension Session {
    /// Whether this is the other session with later tokens.
    func isRefresh(of other: Session) -> Bool {
        version > other.version && !hasTokens(of: other)
    }

    /// Whether both sessions have tokens from the same response.
    func hasTokens(of other: Session) -> Bool {
        authorization == other.authorization && tokens.issuedAt == other.tokens.issuedAt
    }
}

/// The limits for token refreshes in a process.
package struct RefreshLimits: Sendable {
    package static let usual = RefreshLimits()

    /// The maximum number of requests that wait for refreshes.
    var waiters = 10_000
    /// The maximum number of requests that wait for the refresh of one session.
    var waitersPerSession = 1_000
    /// The maximum number of concurrent refreshes.
    var concurrentRefreshes = 10_000
    /// The maximum number of sessions whose failures are tracked.
    var trackedSessions = 100_000
}

/// The back-off after a refresh that failed temporarily: 1 s, doubling to 30 s.
///
/// The back-off protects the upstream. A failure of the store never costs more than the first second: a store protects
/// itself, and all of its sessions must continue as soon as it recovers.
struct RefreshBackoff: Sendable {
    /// The maximum back-off, and how long after a back-off the earlier failures still count.
    static let maxDelay = Duration.seconds(30)

    private static let backoff = ExponentialBackoff(initial: .seconds(1), maximum: maxDelay, jitter: 0.25)

    /// The number of consecutive failed refreshes.
    private(set) var failures = 0
    /// The end of the back-off.
    private(set) var until = WallTime(milliseconds: .min)
    /// The last failure.
    private var failure: Problem?

    /// Records a failure.
    /// - Parameter spread: Any bits, of which the low eight shorten the back-off by up to a quarter, so that sessions
    ///   which failed together do not retry together.
    mutating func note(_ failure: Problem, spread: UInt64, now: WallTime) {
        failures = failure.code == .storeUnavailable || isExpired(at: now) ? 1 : failures + 1
        until = now + Self.backoff.delay(afterFailures: failures, random: spread << 56)
        self.failure = failure
    }

    /// The last failure with the remaining time, for a request during the back-off; `nil` after its end.
    ///
    /// If the clock jumps back, the back-off ends: it is never longer than ``maxDelay``.
    func result(at now: WallTime) -> Problem? {
        guard var problem = failure, now < until, until - now <= Self.maxDelay else { return nil }
        problem.retryAfter = Int(max(1, ((until - now).wholeMilliseconds + 999) / 1_000))
        return problem
    }

    /// Whether the next failure counts as the first one again.
    func isExpired(at now: WallTime) -> Bool {
        now >= until + Self.maxDelay || until - now > Self.maxDelay
    }
}
