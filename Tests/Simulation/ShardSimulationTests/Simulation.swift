import CloakroomCore

/// One run of gateways on a sharded store that can lose writes: sign-ins, requests, refreshes and sign-outs, while
/// servers crash, freeze, are cut off and hand slots over.
///
/// The values of the product decide: ``TokenRefreshStateMachine`` about refreshes, ``ClusterTopology`` about servers and
/// trust, ``SessionCache`` with ``SessionTrust`` and ``PostOutageGracePeriod`` about what was read, and ``WriteJournal``
/// with ``ReassertionCalls`` about what is written again. The servers are models, with their scripts, replication and
/// `WAIT`, and so is what carries out decisions: the transport and the order of steps of a command. In a fifth of the
/// runs there are also logins with marks, and attempts that ``ThrottleRule`` decides about.
///
/// A run is determined by its seed: the same seed gives the same run in any process.
struct Simulation: Sendable {
    /// The result of a run.
    struct Outcome: Sendable {
        /// The first invariant that was violated.
        let violation: Violation?
        /// The events and their numbers of occurrences.
        let coverage: Coverage
        /// The number of events processed.
        let eventCount: Int
        /// One line for each step; empty unless the run was traced.
        let trace: [String]
    }

    /// Runs a simulation.
    /// - Parameters:
    ///   - mutant: A bug to inject.
    ///   - isTraced: Whether to record a trace.
    static func run(seed: UInt64, mutant: InjectedBug? = nil, isTraced: Bool = false) -> Outcome {
        let world = World(seed: seed, mutant: mutant, isTraced: isTraced)
        world.run()
        return Outcome(
            violation: world.violation, coverage: world.coverage, eventCount: world.eventCount,
            trace: world.trace ?? [])
    }
}

/// Events that a run counts. The tests require that each of them occurs.
enum SimulationEvent: Int, Sendable, CaseIterable {
    // Faults.
    case primaryCrashed, primaryRestarted, primaryFroze, primaryIsolated, gatewayIsolated, replicaCrashed
    case gatewayCrashed, gatewayPaused, slowReplication, slowMessage, slotMigrated
    // Effects of faults at servers.
    case promoted, demoted, writesDiscarded, unsyncedWritesLost, lateExecution, minorityWrite, clusterDown
    case replyHeld, waitConfirmed, waitTimedOut
    // Rules of gateways.
    case trusted, distrusted, doubted, redirected, redirectedWithAsking, parked, grace, missingInGrace
    case endAsserted, recordAsserted, recordInserted, leaseAsserted, cutoffAsserted, cutoffRequestAsserted
    case assertionIgnored, notAccepted, completedByJournal
    // Actions and results.
    case signedIn, signInFailed, signedOut, signedOutEverywhere, signOutFailed, endedByCutoff
    case markSet, markRejected, markUnknown, markAsserted
    case attemptAdmitted, attemptDelayed, attemptFailed
    case refreshed, coalesced, refreshEnded, refreshFailed, tokenReused
    case served, servedFromCache, unauthorized, respondedUnavailable
}

/// The number of occurrences of each event in a run.
struct Coverage: Sendable {
    /// The counts, by the raw values of the events.
    private(set) var counts = [Int](repeating: 0, count: SimulationEvent.allCases.count)

    mutating func count(_ event: SimulationEvent) { counts[event.rawValue] += 1 }
}

/// The invariants of a run. ``World`` documents what each of them excludes.
enum Invariant: String, Sendable, CaseIterable {
    /// No session that was signed out is served later than the bound after the acknowledgement.
    case revokedEnds
    /// No gateway serves a session whose end it has acknowledged itself.
    case ownEndsHold
    /// No refresh token is spent twice while the gateway that spent it first lives.
    case spentOnce
    /// No session ends, and no client gets a 401, unless the user signed out or the provider rejected the tokens.
    case staysSignedIn
    /// No gateway trusts a server before it has what the gateway has written, and what it may have written.
    case writtenAgain
    /// No command is executed by two servers, or twice.
    case executedOnce
    /// No login is accepted twice, except for a bounded time after a failover that lost its mark.
    case acceptedOnce
    /// The throttle admits its limit, and at most the same once more for each failover.
    case throttled
    /// After faults have stopped, all sessions are served by all gateways, and nothing hangs.
    case progress
}

/// A violated invariant.
struct Violation: Sendable, Equatable, CustomStringConvertible {
    let invariant: Invariant
    /// The evidence, with the names and numbers of the trace.
    let text: String
    /// Milliseconds since the start.
    let time: Int64

    /// The invariant, the time and the evidence.
    var description: String { "\(invariant.rawValue) is violated at \(time) ms: \(text)" }
}
