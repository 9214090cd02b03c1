import CloakroomCore

/// One run of token refreshes, logins and logouts under faults: replicas that execute ``TokenRefreshStateMachine`` and
/// the steps of callbacks and logouts, clients, a store, and an upstream that accepts each refresh token once.
///
/// A run is determined by its seed: the same seed gives the same run in any process.
public struct Simulation: Sendable {
    /// The result of a run.
    public struct Outcome: Sendable {
        /// The first invariant that was violated.
        public let violation: Violation?
        /// The events and their numbers of occurrences.
        public let coverage: Coverage
        /// The number of events processed.
        public let eventCount: Int
        /// One line for each step; empty unless the run was traced.
        public let trace: [String]
    }

    /// Runs a simulation.
    /// - Parameters:
    /// - mutant: A bug to inject.
    /// - isTraced: Whether to record a trace.
    public static func run(seed: UInt64, mutant: InjectedBug? = nil, isTraced: Bool = false) -> Outcome {
        let world = SimulationWorld(seed: seed, mutant: mutant, isTraced: isTraced)
        world.run()
        for record in world.store.records {
            switch record.endReason {
            case .expiredIdle: world.coverage.count(.expiredIdle)
            case .expiredAbsolute: world.coverage.count(.expiredAbsolute)
            default: break
            }
        }
        return Outcome(
            violation: world.violation, coverage: world.coverage, eventCount: world.eventCount,
            trace: world.trace ?? [])
    }
}

/// Events that a run counts. The tests require that each of them occurs.
public enum SimulationEvent: Int, Sendable, CaseIterable {
    // Faults.
    case slowMessage, lostRequest, lostReply, duplicateRequest, duplicateReply, lateResponse
    case storeOutage, partition, noticeLost, crash, crashInFlight, pause, pauseInFlight, clockSkew, clockJump
    case callTimeout, upstreamFailure, spentButFailed, leaseRanOut, leaseForgotten
    case tokenReused, pairReissued, upstreamRevoked
    // Actions of other parties.
    case signedIn, loginUsed, loginFailed, logoutOvertook, loggedOut, logoutAcknowledged, logoutResent
    case resealed, resealRejected, signedOut, signedOutEverywhere, expiredIdle, expiredAbsolute, userSaved
    // Results of the steps of a refresh.
    case leaseTaken, leaseGone, saveChanged, saveFenced, saveGone, rejectChanged, rejectGone
    // Results of refreshes.
    case refreshed, coalesced, rejected, ended, endedWithUnusedTokens, unavailable, storeUnavailable, leaseTimeout
    // Results of requests.
    case served, servedAfterReplay, waited, cooledOff, rejectedByUpstream, respondedUnavailable, respondedUnauthorized
}

/// The number of occurrences of each event in a run.
public struct Coverage: Sendable {
    /// The counts, by the raw values of the events.
    public private(set) var counts = [Int](repeating: 0, count: SimulationEvent.allCases.count)

    mutating func count(_ event: SimulationEvent) { counts[event.rawValue] += 1 }
}

/// The invariants of a run.
public enum Invariant: String, Sendable, CaseIterable {
    /// No session ends, and no client gets a 401, unless the upstream rejected the refresh token, a user signed out, or
    /// a timeout passed.
    case endsWithCause
    /// No holder of the lease spends a refresh token that another call has spent, unless that call was disturbed by a
    /// fault.
    case spentOnce
    /// Tokens received under the latest lease are in the store once their save arrived, and are not lost.
    case resultPersisted = "resultKept"
    /// No token is used for, or stored in, another session than its own; and unused tokens are returned to be revoked.
    case tokensNeverCrossSessions = "tokensStayHome"
    /// No request is served with an ended session once the replica has received the notice.
    case endedIsEnded
    /// No login sends its code twice, and no two of its callbacks sign in.
    case loginOnce
    /// No session that a client has received is active once the gateway has acknowledged the logout of its provider.
    case logoutWins
    /// After faults have stopped, all active sessions are served, and no request or refresh hangs.
    case progress
}

/// A violated invariant.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
    /// The invariant.
    public let invariant: Invariant
    /// The evidence, with the names and numbers of the trace.
    public let text: String
    /// Milliseconds since the start.
    public let time: Int64

    /// The invariant, the time and the evidence.
    public var description: String { "\(invariant.rawValue) is violated at \(time) ms: \(text)" }
}
