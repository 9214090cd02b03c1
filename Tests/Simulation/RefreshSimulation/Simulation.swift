import CloakroomCore

/// One run of token refreshes under faults: replicas that execute ``TokenRefreshStateMachine``, clients, a store, and an upstream
/// that accepts each refresh token once.
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
