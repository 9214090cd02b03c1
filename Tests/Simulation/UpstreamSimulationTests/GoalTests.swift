import TestSupport
import Testing
import UpstreamSimulation

@Suite("Simulation of upstreams", .timeLimit(.minutes(3)))
struct GoalTests {
    @Test("Every goal is reached with every seed", arguments: Goal.allCases, 1...5 as ClosedRange<UInt64>)
    func holds(_ goal: Goal, seed: UInt64) {
        expect(goal.violations(seed: seed), equals: [])
    }
}
