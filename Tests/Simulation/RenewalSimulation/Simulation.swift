import CloakroomCore

/// One run of renewals in a world in which what can go wrong does: replicas that carry out ``TokenRefreshStateMachine``, clients, a
/// store, and an upstream whose refresh tokens are good for once.
///
/// The seed decides everything: the same seed gives the same run, in any process.
public struct Simulation: Sendable {
    /// What came of a run.
    public struct Outcome: Sendable {
        /// The first invariant that did not hold.
        public let violation: Violation?
        /// What happened, and how often.
        public let coverage: Coverage
        /// How many events it took.
        public let eventCount: Int
        /// What happened, one line for each step; empty unless it was asked for.
        public let trace: [String]
    }

    /// Runs a world.
    /// - Parameters:
    ///   - mutant: A bug to put into it.
    ///   - isTraced: Whether to write down what happens.
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
