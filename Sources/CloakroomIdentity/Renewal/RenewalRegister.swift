import CloakroomCore

/// Which renewals are under way in this process, who waits for them, and which have to rest.
///
/// It decides and does nothing: whoever begins a flight carries it out and says so with
/// ``complete(_:_:isTransient:isRefreshed:now:)`` and ``finish(_:now:)``; whoever is handed waiters resumes them.
///
/// Flights are told apart by the whole key of their session. One renewer deals with one upstream, the one that signs
/// people in, so that the key names session and upstream; and it is all of the ticket's digest, so that no two sessions
/// ever share a flight.
struct RefreshCoordinator {
    /// What a waiter gets.
    enum WaitResult: Sendable {
        /// The answer, as it was known when it was asked for.
        case immediate(RefreshOutcome)
        /// What came of a flight.
        case completed(RefreshOutcome)
    }

    typealias Waiter = CheckedContinuation<WaitResult, Never>

    /// One renewal that is under way.
    struct RefreshID: Sendable, Hashable {
        let session: SessionKey
        let number: UInt64
    }

    /// What to do with a request.
    enum Admission {
        /// Nothing: it waits for a flight that is under way.
        case joinedExisting
        /// Carry this flight out; the request waits for it.
        case started(RefreshID)
        /// Answer it.
        case result(RefreshOutcome)
    }

    /// Renewing for ``RefreshTrigger/refusal`` is of no use this soon after it was done: whoever refuses tokens of that age
    /// does so for a reason of its own.
    static let rejectionRetryInterval = Duration.seconds(5)

    private struct ActiveRefresh {
        let id: RefreshID
        let cause: RefreshTrigger
        var waiters: [UInt64: Waiter] = [:]
        /// What came of it; what is left to do then concerns no request.
        var outcome: RefreshOutcome?
    }

    private struct Entry {
        var activeRefresh: ActiveRefresh?
        var coolOff = RefreshBackoff()
        /// When a renewal for ``RefreshTrigger/refusal`` gave new tokens.
        var rejectionRefreshedAt: Timestamp?

        func isExpired(at now: Timestamp) -> Bool {
            activeRefresh == nil && coolOff.isExpired(at: now) && !isPausing(at: now)
        }

        func isPausing(at now: Timestamp) -> Bool {
            guard let rejectionRefreshedAt else { return false }
            return now >= rejectionRefreshedAt && now - rejectionRefreshedAt < RefreshCoordinator.rejectionRetryInterval
        }
    }

    private let bounds: RefreshLimits
    private var entries: [SessionKey: Entry] = [:]
    private var sweepAt = 1_024
    private var nextNumber: UInt64 = 0
    private var shutdownContinuations: [AsyncStream<Void>.Continuation] = []
    /// Renewals that are under way, and what is left to do after them.
    private(set) var inFlightCount = 0
    /// Requests that wait.
    private(set) var waiterCount = 0
    /// Whether nothing is begun any more.
    private(set) var isStopping = false

    init(_ bounds: RefreshLimits) {
        self.bounds = bounds
    }

    /// How many sessions something is remembered of.
    var count: Int { entries.count }

    // MARK: - Beginning

    /// Has a request wait for a renewal, or says what it is to be answered.
    /// - Parameter number: By which ``cancelWaiter(_:of:)`` knows it again; no two requests have the same.
    mutating func join(
        _ session: Session, cause: RefreshTrigger, waiter: Waiter, number: UInt64, now: Timestamp
    ) -> Admission {
        let key = session.key
        let cause = effectiveCause(cause, of: session, now: now)
        let flight = entries[key]?.activeRefresh
        if let outcome = flight?.outcome, let response = Self.result(to: session, after: outcome) {
            return .result(response)
        }
        let isUnderWay = flight.map { $0.outcome == nil } ?? false
        if !isUnderWay, let response = admissionRejection(session, cause: cause, now: now) { return .result(response) }
        guard waiterCount < bounds.waiters, (flight?.waiters.count ?? 0) < bounds.waitersPerSession else {
            return .result(Self.busy)
        }
        let started = isUnderWay ? nil : insert(key, cause: cause, now: now)
        entries[key]?.activeRefresh?.waiters[number] = waiter
        waiterCount += 1
        return started.map(Admission.started) ?? .joinedExisting
    }

    /// A rejection that the token's age explains is no sign of an upstream that refuses fresh tokens: ``rejectionRetryInterval``
    /// does not follow it where ``RefreshSchedule/minimumInterval`` kept the tokens from being refreshed in time.
    private func effectiveCause(_ cause: RefreshTrigger, of session: Session, now: Timestamp) -> RefreshTrigger {
        session.hasAgedAccessToken(at: now) && session.update.urgency(at: now) == .none ? .expired : cause
    }

    /// Begins a flight that nobody waits for.
    /// - Returns: `nil` if there is one, or should be none.
    mutating func begin(_ session: Session, cause: RefreshTrigger, now: Timestamp) -> RefreshID? {
        guard entries[session.key]?.activeRefresh == nil, admissionRejection(session, cause: cause, now: now) == nil
        else { return nil }
        return insert(session.key, cause: cause, now: now)
    }

    /// Whether renewing a session's refused tokens has been tried just now.
    func isWithinRetryInterval(_ session: Session, now: Timestamp) -> Bool {
        entries[session.key].map { isWithinRetryInterval(session, $0, now: now) } ?? false
    }

    private func isWithinRetryInterval(_ session: Session, _ entry: Entry, now: Timestamp) -> Bool {
        // Tokens that are due anyway may have been refused for their age.
        entry.isPausing(at: now) && now - session.tokens.issuedAt < Self.rejectionRetryInterval
            && !session.hasAgedAccessToken(at: now)
    }

    private func admissionRejection(_ session: Session, cause: RefreshTrigger, now: Timestamp) -> RefreshOutcome? {
        if let entry = entries[session.key] {
            if cause == .rejected, isWithinRetryInterval(session, entry, now: now) { return .active(session) }
            if let response = entry.coolOff.result(at: now) { return response }
        }
        return isStopping || inFlightCount >= bounds.concurrentRefreshes ? Self.busy : nil
    }

    /// What came of a flight whose last duties are being done, for a request that comes now.
    /// - Returns: `nil` if the request needs a flight of its own.
    private static func result(to session: Session, after outcome: RefreshOutcome) -> RefreshOutcome? {
        switch outcome {
        case .active(let refreshed): refreshed.isRefresh(of: session) ? outcome : nil
        case .ended: outcome
        case .unavailable, .storeUnavailable: nil
        }
    }

    private mutating func insert(_ key: SessionKey, cause: RefreshTrigger, now: Timestamp) -> RefreshID {
        if entries[key] == nil, entries.count >= sweepAt { sweep(now: now) }
        nextNumber += 1
        let id = RefreshID(session: key, number: nextNumber)
        entries[key, default: Entry()].activeRefresh = ActiveRefresh(id: id, cause: cause)
        inFlightCount += 1
        return id
    }

    /// Forgets what is over, each time that there is twice as much as was left the last time.
    private mutating func sweep(now: Timestamp) {
        entries = entries.filter { !$0.value.isExpired(at: now) }
        sweepAt = max(1_024, entries.count * 2)
    }

    // MARK: - Waiting

    /// A request does not wait any more.
    mutating func cancelWaiter(_ number: UInt64, of key: SessionKey) -> Waiter? {
        guard let waiter = entries[key]?.activeRefresh?.waiters.removeValue(forKey: number) else { return nil }
        waiterCount -= 1
        return waiter
    }

    /// Those who wait have waited long enough.
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

    /// What came of a flight.
    /// - Parameters:
    ///   - isTransient: Whether it is to be tried again after a rest.
    ///   - isRenewed: Whether this flight brought new tokens.
    /// - Returns: Those who wait for it, and what to answer them: when to try again is known only here.
    mutating func complete(
        _ id: RefreshID, _ outcome: RefreshOutcome, isTransient: Bool = false, isRefreshed: Bool = false, now: Timestamp
    ) -> ([Waiter], RefreshOutcome) {
        guard let flight = entries[id.session]?.activeRefresh, flight.id == id else { return ([], outcome) }
        if isTransient {
            // Each session by bits of its own, and differently each time.
            let spread = id.session.word2 >> (8 * (id.number & 7))
            entries[id.session]?.coolOff.note(outcome, spread: spread, now: now)
        } else {
            entries[id.session]?.coolOff = RefreshBackoff()
        }
        if isRefreshed, flight.cause == .rejected { entries[id.session]?.rejectionRefreshedAt = now }
        entries[id.session]?.activeRefresh?.outcome = outcome
        return (takeWaiters(of: id.session), entries[id.session]?.coolOff.result(at: now) ?? outcome)
    }

    /// All of a flight is over.
    mutating func finish(_ id: RefreshID, now: Timestamp) {
        inFlightCount -= 1
        // Another one may have begun since this one landed.
        if entries[id.session]?.activeRefresh?.id == id {
            entries[id.session]?.activeRefresh = nil
            let isExpired = entries[id.session]?.isExpired(at: now) ?? true
            if isExpired || entries.count - inFlightCount > bounds.trackedSessions { entries[id.session] = nil }
        }
        guard inFlightCount == 0 else { return }
        for landing in shutdownContinuations { landing.finish() }
        shutdownContinuations = []
    }

    /// Lets nothing begin any more.
    /// - Returns: A stream that ends with the last flight.
    mutating func stop() -> AsyncStream<Void> {
        isStopping = true
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        if inFlightCount == 0 { continuation.finish() } else { shutdownContinuations.append(continuation) }
        return stream
    }

    /// The answer where there are too many, or it takes too long.
    static let busy = RefreshOutcome.unavailable(status: 503, retryAfter: 1)
}

extension Session {
    /// Whether this is the other one with later tokens.
    func isRefresh(of other: Session) -> Bool {
        version > other.version && !hasTokens(of: other)
    }

    /// Whether both have the tokens of one and the same answer.
    func hasTokens(of other: Session) -> Bool {
        authorization == other.authorization && tokens.issuedAt == other.tokens.issuedAt
    }
}
