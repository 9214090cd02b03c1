import CloakroomCore

/// Which renewals are under way in this process, who waits for them, and which have to rest.
///
/// It decides and does nothing: whoever begins a flight carries it out and says so with
/// ``land(_:_:isTransient:isRenewed:now:)`` and ``leave(_:now:)``; whoever is handed waiters resumes them.
///
/// Flights are told apart by the whole key of their session. One renewer deals with one upstream, the one that signs
/// people in, so that the key names session and upstream; and it is all of the ticket's digest, so that no two sessions
/// ever share a flight.
struct RenewalRegister {
    /// What a waiter gets.
    enum Reply: Sendable {
        /// The answer, as it was known when it was asked for.
        case known(RenewalOutcome)
        /// What came of a flight.
        case landed(RenewalOutcome)
    }

    typealias Waiter = CheckedContinuation<Reply, Never>

    /// One renewal that is under way.
    struct FlightID: Sendable, Hashable {
        let session: SessionKey
        let number: UInt64
    }

    /// What to do with a request.
    enum Admission {
        /// Nothing: it waits for a flight that is under way.
        case joined
        /// Carry this flight out; the request waits for it.
        case begun(FlightID)
        /// Answer it.
        case answer(RenewalOutcome)
    }

    /// Renewing for ``RenewalCause/refusal`` is of no use this soon after it was done: whoever refuses tokens of that age
    /// does so for a reason of its own.
    static let refusalPause = Duration.seconds(5)

    private struct Flight {
        let id: FlightID
        let cause: RenewalCause
        var waiters: [UInt64: Waiter] = [:]
        /// What came of it; what is left to do then concerns no request.
        var outcome: RenewalOutcome?
    }

    private struct Entry {
        var flight: Flight?
        var coolOff = CoolOff()
        /// When a renewal for ``RenewalCause/refusal`` gave new tokens.
        var refusalRenewedAt: Timestamp?

        func isForgotten(at now: Timestamp) -> Bool {
            flight == nil && coolOff.isForgotten(at: now) && !isPausing(at: now)
        }

        func isPausing(at now: Timestamp) -> Bool {
            guard let refusalRenewedAt else { return false }
            return now >= refusalRenewedAt && now - refusalRenewedAt < RenewalRegister.refusalPause
        }
    }

    private let bounds: RenewalBounds
    private var entries: [SessionKey: Entry] = [:]
    private var sweepAt = 1_024
    private var nextNumber: UInt64 = 0
    private var landings: [AsyncStream<Void>.Continuation] = []
    /// Renewals that are under way, and what is left to do after them.
    private(set) var flightCount = 0
    /// Requests that wait.
    private(set) var waiterCount = 0
    /// Whether nothing is begun any more.
    private(set) var isStopping = false

    init(_ bounds: RenewalBounds) {
        self.bounds = bounds
    }

    /// How many sessions something is remembered of.
    var count: Int { entries.count }

    // MARK: - Beginning

    /// Has a request wait for a renewal, or says what it is to be answered.
    /// - Parameter number: By which ``abandon(_:of:)`` knows it again; no two requests have the same.
    mutating func admit(
        _ session: Session, cause: RenewalCause, waiter: Waiter, number: UInt64, now: Timestamp
    ) -> Admission {
        let key = session.key
        let cause = effectiveCause(cause, of: session, now: now)
        let flight = entries[key]?.flight
        if let outcome = flight?.outcome, let answer = Self.answer(to: session, after: outcome) {
            return .answer(answer)
        }
        let isUnderWay = flight.map { $0.outcome == nil } ?? false
        if !isUnderWay, let answer = reasonNotToBegin(session, cause: cause, now: now) { return .answer(answer) }
        guard waiterCount < bounds.waiters, (flight?.waiters.count ?? 0) < bounds.waitersPerSession else {
            return .answer(Self.busy)
        }
        let begun = isUnderWay ? nil : insert(key, cause: cause, now: now)
        entries[key]?.flight?.waiters[number] = waiter
        waiterCount += 1
        return begun.map(Admission.begun) ?? .joined
    }

    /// A rejection that the token's age explains is no sign of an upstream that refuses fresh tokens: ``refusalPause``
    /// does not follow it where ``RenewalTimes/minimumInterval`` kept the tokens from being refreshed in time.
    private func effectiveCause(_ cause: RenewalCause, of session: Session, now: Timestamp) -> RenewalCause {
        session.hasAgedAccessToken(at: now) && session.renewal.need(at: now) == .none ? .expiry : cause
    }

    /// Begins a flight that nobody waits for.
    /// - Returns: `nil` if there is one, or should be none.
    mutating func begin(_ session: Session, cause: RenewalCause, now: Timestamp) -> FlightID? {
        guard entries[session.key]?.flight == nil, reasonNotToBegin(session, cause: cause, now: now) == nil
        else { return nil }
        return insert(session.key, cause: cause, now: now)
    }

    /// Whether renewing a session's refused tokens has been tried just now.
    func isTooSoon(_ session: Session, now: Timestamp) -> Bool {
        entries[session.key].map { isTooSoon(session, $0, now: now) } ?? false
    }

    private func isTooSoon(_ session: Session, _ entry: Entry, now: Timestamp) -> Bool {
        // Tokens that are due anyway may have been refused for their age.
        entry.isPausing(at: now) && now - session.tokens.obtainedAt < Self.refusalPause
            && !session.hasAgedAccessToken(at: now)
    }

    private func reasonNotToBegin(_ session: Session, cause: RenewalCause, now: Timestamp) -> RenewalOutcome? {
        if let entry = entries[session.key] {
            if cause == .refusal, isTooSoon(session, entry, now: now) { return .live(session) }
            if let answer = entry.coolOff.answer(at: now) { return answer }
        }
        return isStopping || flightCount >= bounds.flights ? Self.busy : nil
    }

    /// What came of a flight whose last duties are being done, for a request that comes now.
    /// - Returns: `nil` if the request needs a flight of its own.
    private static func answer(to session: Session, after outcome: RenewalOutcome) -> RenewalOutcome? {
        switch outcome {
        case .live(let renewed): renewed.isRenewal(of: session) ? outcome : nil
        case .ended: outcome
        case .unavailable, .storeUnavailable: nil
        }
    }

    private mutating func insert(_ key: SessionKey, cause: RenewalCause, now: Timestamp) -> FlightID {
        if entries[key] == nil, entries.count >= sweepAt { sweep(now: now) }
        nextNumber += 1
        let id = FlightID(session: key, number: nextNumber)
        entries[key, default: Entry()].flight = Flight(id: id, cause: cause)
        flightCount += 1
        return id
    }

    /// Forgets what is over, each time that there is twice as much as was left the last time.
    private mutating func sweep(now: Timestamp) {
        entries = entries.filter { !$0.value.isForgotten(at: now) }
        sweepAt = max(1_024, entries.count * 2)
    }

    // MARK: - Waiting

    /// A request does not wait any more.
    mutating func abandon(_ number: UInt64, of key: SessionKey) -> Waiter? {
        guard let waiter = entries[key]?.flight?.waiters.removeValue(forKey: number) else { return nil }
        waiterCount -= 1
        return waiter
    }

    /// Those who wait have waited long enough.
    mutating func expireWaiters(of id: FlightID) -> [Waiter] {
        guard entries[id.session]?.flight?.id == id else { return [] }
        return takeWaiters(of: id.session)
    }

    private mutating func takeWaiters(of key: SessionKey) -> [Waiter] {
        let waiters = entries[key]?.flight?.waiters ?? [:]
        entries[key]?.flight?.waiters = [:]
        waiterCount -= waiters.count
        return Array(waiters.values)
    }

    // MARK: - Ending

    /// What came of a flight.
    /// - Parameters:
    ///   - isTransient: Whether it is to be tried again after a rest.
    ///   - isRenewed: Whether this flight brought new tokens.
    /// - Returns: Those who wait for it, and what to answer them: when to try again is known only here.
    mutating func land(
        _ id: FlightID, _ outcome: RenewalOutcome, isTransient: Bool = false, isRenewed: Bool = false, now: Timestamp
    ) -> ([Waiter], RenewalOutcome) {
        guard let flight = entries[id.session]?.flight, flight.id == id else { return ([], outcome) }
        if isTransient {
            // Each session by bits of its own, and differently each time.
            let spread = id.session.word2 >> (8 * (id.number & 7))
            entries[id.session]?.coolOff.note(outcome, spread: spread, now: now)
        } else {
            entries[id.session]?.coolOff = CoolOff()
        }
        if isRenewed, flight.cause == .refusal { entries[id.session]?.refusalRenewedAt = now }
        entries[id.session]?.flight?.outcome = outcome
        return (takeWaiters(of: id.session), entries[id.session]?.coolOff.answer(at: now) ?? outcome)
    }

    /// All of a flight is over.
    mutating func leave(_ id: FlightID, now: Timestamp) {
        flightCount -= 1
        // Another one may have begun since this one landed.
        if entries[id.session]?.flight?.id == id {
            entries[id.session]?.flight = nil
            let isForgotten = entries[id.session]?.isForgotten(at: now) ?? true
            if isForgotten || entries.count - flightCount > bounds.remembered { entries[id.session] = nil }
        }
        guard flightCount == 0 else { return }
        for landing in landings { landing.finish() }
        landings = []
    }

    /// Lets nothing begin any more.
    /// - Returns: A stream that ends with the last flight.
    mutating func stop() -> AsyncStream<Void> {
        isStopping = true
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
        if flightCount == 0 { continuation.finish() } else { landings.append(continuation) }
        return stream
    }

    /// The answer where there are too many, or it takes too long.
    static let busy = RenewalOutcome.unavailable(status: 503, retryAfter: 1)
}

extension Session {
    /// Whether this is the other one with later tokens.
    func isRenewal(of other: Session) -> Bool {
        version > other.version && !hasTokens(of: other)
    }

    /// Whether both have the tokens of one and the same answer.
    func hasTokens(of other: Session) -> Bool {
        authorization == other.authorization && tokens.obtainedAt == other.tokens.obtainedAt
    }
}
