import CloakroomCore

/// One run of an upstream's targets under load: event loops of a gateway that execute ``UpstreamBoard``,
/// ``TargetPicker``, ``TargetState``, ``RetryDecision`` and `UpstreamPoolStateMachine`, clients, and targets that are
/// slow, fail or hang.
///
/// A run is determined by its scenario and its seed: it uses no real clock, no task, and no collection without an
/// order. The arrivals and service times depend on the seed only, so that policies are compared with the same requests.
public enum Simulation {
    /// Runs a simulation.
    /// - Parameter bug: A bug to inject.
    public static func run(_ scenario: Scenario, seed: UInt64, bug: InjectedBug? = nil) -> Outcome {
        let world = World(bug.map { scenario.with($0) } ?? scenario, seed: seed, bug: bug)
        world.run()
        return world.outcome
    }
}

extension Scenario {
    /// The scenario with those bugs that are settings.
    fileprivate func with(_ bug: InjectedBug) -> Scenario {
        var scenario = self
        switch bug {
        case .noFailurePenalty: scenario.balance.failurePenalty = .zero
        case .noBudget:
            scenario.retry.budget = 1
            scenario.retry.perSecond = 1_000
        case .noEstimate: scenario.balance.policy = .requests
        case .patientQueue: scenario.pool.congestedAfter = .seconds(3_600)
        case .noSlowStart: scenario.balance.slowStart = .zero
        case .noSilenceRule, .weightsInCost, .fixedShares, .noProbe, .reloadForgets: break
        }
        return scenario
    }
}
