import RefreshSimulation
import TestSupport
import Testing

@Suite("Simulation of token refreshes", .timeLimit(.minutes(3)))
struct SimulationTests {
    @Test("All seeds hold all invariants, and every kind of event occurs", .timeLimit(.minutes(2)))
    func seedsHold() async {
        // Each injected bug is found with 2,000, and the rarest event occurs with 10,000.
        let results = await SeedResults.run(10_000) { seed in
            let outcome = Simulation.run(seed: seed)
            return (outcome.violation.map { "\($0)" }, outcome.eventCount, outcome.coverage.counts)
        }
        expect(results.violations, equals: [], "replay one with CLOAKROOM_SIMULATION_SEED")
        let counts = zip(SimulationEvent.allCases, results.counts)
        expect(counts.filter { $0.1 == 0 }.map(\.0), equals: [])
        print("\(results.seedCount) seeds, \(results.eventCount) events")
        print(counts.map { "\($0) \($1)" }.joined(separator: ", "))
    }

    @Test("One seed can be replayed: CLOAKROOM_SIMULATION_SEED, with CLOAKROOM_SIMULATION_MUTANT to inject a bug")
    func replay() throws {
        let (seed, mutant) = SeedResults.replayed
        let bug = mutant.flatMap { InjectedBug(rawValue: $0) }
        let outcome = Simulation.run(seed: seed ?? 0, mutant: bug, isTraced: true)
        if seed != nil { print(outcome.trace.joined(separator: "\n")) }
        expect(!outcome.trace.isEmpty)
        expect(outcome.violation, equals: nil)
    }
}
