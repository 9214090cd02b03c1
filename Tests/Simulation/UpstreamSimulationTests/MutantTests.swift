import TestSupport
import Testing
import UpstreamSimulation

/// Tests of the simulation itself: each of these bugs must violate a goal.
@Suite("Mutants of the simulation of upstreams", .timeLimit(.minutes(3)))
struct MutantTests {
    /// Each bug, with a goal that it violates.
    private static let table: [(InjectedBug, Goal)] = [
        (.noFailurePenalty, .failingTarget),
        (.noSilenceRule, .hangingTarget),
        (.weightsInCost, .heavyTarget),
        (.fixedShares, .unequalLoops),
        (.noBudget, .failingUpstreamWithFewRequests),
        (.noProbe, .ejectedTarget),
        (.noEstimate, .slowTargetWithFewRequests),
        (.patientQueue, .overload),
        (.noSlowStart, .slowStart),
    ]

    @Test("Each mutant violates its goal", arguments: table)
    func found(_ bug: InjectedBug, _ goal: Goal) {
        let violations = goal.violations(seed: 1, bug: bug)
        expect(!violations.isEmpty)
        print("\(bug): \(violations.joined(separator: "; "))")
    }

    @Test("Every mutant is tested")
    func all() {
        // The last one is tested with the reload.
        expect(Set(Self.table.map(\.0)).union([.reloadForgets]), equals: Set(InjectedBug.allCases))
    }
}
