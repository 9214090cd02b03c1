/// What can happen in a run: the simulation is worth something only if all of it does.
public enum SimulationEvent: Int, Sendable, CaseIterable {
    // What goes wrong.
    case slowMessage, lostRequest, lostReply, duplicateRequest, duplicateReply, lateResponse
    case storeOutage, partition, noticeLost, crash, crashInFlight, pause, pauseInFlight, clockSkew, clockJump
    case callTimeout, upstreamFailure, spentButFailed, leaseRanOut, leaseForgotten
    case tokenReused, pairReissued, upstreamRevoked
    // What others do.
    case resealed, resealRejected, signedOut, signedOutEverywhere, expiredIdle, expiredAbsolute, userSaved
    // What became of a flight's steps.
    case leaseTaken, leaseGone, saveChanged, saveFenced, saveGone, rejectChanged, rejectGone
    // How flights ended.
    case refreshed, coalesced, rejected, ended, endedWithUnusedTokens, unavailable, storeUnavailable, leaseTimeout
    // What became of requests.
    case served, servedAfterReplay, waited, cooledOff, rejectedByUpstream, respondedUnavailable, respondedUnauthorized
}

/// How often what happened, over one run or many.
public struct Coverage: Sendable {
    private var counts = [Int](repeating: 0, count: SimulationEvent.allCases.count)

    /// Nothing has happened yet.
    public init() {}

    /// How often something happened.
    public subscript(_ happening: SimulationEvent) -> Int { counts[happening.rawValue] }

    mutating func count(_ happening: SimulationEvent) {
        counts[happening.rawValue] += 1
    }

    /// Adds the counts of another run.
    public mutating func add(_ other: Coverage) {
        for index in counts.indices { counts[index] += other.counts[index] }
    }

    /// What never happened.
    public var missing: [SimulationEvent] { SimulationEvent.allCases.filter { self[$0] == 0 } }
}
