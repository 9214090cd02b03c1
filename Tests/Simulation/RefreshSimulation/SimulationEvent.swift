/// Events that a run counts. The tests require that each of them occurs.
public enum SimulationEvent: Int, Sendable, CaseIterable {
    // Faults.
    case slowMessage, lostRequest, lostReply, duplicateRequest, duplicateReply, lateResponse
    case storeOutage, partition, noticeLost, crash, crashInFlight, pause, pauseInFlight, clockSkew, clockJump
    case callTimeout, upstreamFailure, spentButFailed, leaseRanOut, leaseForgotten
    case tokenReused, pairReissued, upstreamRevoked
    // Actions of other parties.
    case resealed, resealRejected, signedOut, signedOutEverywhere, expiredIdle, expiredAbsolute, userSaved
    // Results of the steps of a refresh.
    case leaseTaken, leaseGone, saveChanged, saveFenced, saveGone, rejectChanged, rejectGone
    // Results of refreshes.
    case refreshed, coalesced, rejected, ended, endedWithUnusedTokens, unavailable, storeUnavailable, leaseTimeout
    // Results of requests.
    case served, servedAfterReplay, waited, cooledOff, rejectedByUpstream, respondedUnavailable, respondedUnauthorized
}

/// The number of occurrences of each event, in one run or several.
public struct Coverage: Sendable {
    private var counts = [Int](repeating: 0, count: SimulationEvent.allCases.count)

    /// All counts are 0.
    public init() {}

    /// The number of occurrences of an event.
    public subscript(_ happening: SimulationEvent) -> Int { counts[happening.rawValue] }

    mutating func count(_ happening: SimulationEvent) {
        counts[happening.rawValue] += 1
    }

    /// Adds the counts of another run.
    public mutating func add(_ other: Coverage) {
        for index in counts.indices { counts[index] += other.counts[index] }
    }

    /// The events that never occurred.
    public var missing: [SimulationEvent] { SimulationEvent.allCases.filter { self[$0] == 0 } }
}
