import TestSupport
import Testing

@Suite("Simulation of a sharded store", .timeLimit(.minutes(10)))
struct SimulationTests {
    @Test("All seeds hold all invariants, and every kind of event occurs")
    func seedsHold() async {
        let results = await SeedResults.run(1_000) { seed in
            let outcome = Simulation.run(seed: seed)
            return (outcome.violation.map { "\($0)" }, outcome.eventCount, outcome.coverage.counts)
        }
        expect(results.violations, equals: [], "replay one with CLOAKROOM_SIMULATION_SEED")
        let counts = zip(SimulationEvent.allCases, results.counts)
        expect(counts.filter { $0.1 == 0 }.map(\.0), equals: [])
        print("\(results.seedCount) seeds of a sharded store, \(results.eventCount) events")
        print(counts.map { "\($0) \($1)" }.joined(separator: ", "))
    }

    @Test("One seed can be replayed: CLOAKROOM_SIMULATION_SEED, with CLOAKROOM_SIMULATION_MUTANT to inject a bug")
    func replay() {
        let (seed, mutant) = SeedResults.replayed
        let bug = mutant.flatMap { InjectedBug(rawValue: $0) }
        let outcome = Simulation.run(seed: seed ?? 0, mutant: bug, isTraced: true)
        if seed != nil { print(outcome.trace.joined(separator: "\n")) }
        expect(!outcome.trace.isEmpty)
        expect(outcome.violation, equals: nil)
    }

    @Test("The same seed gives the same run, with and without a trace")
    func sameTrace() {
        for seed in 0..<50 as Range<UInt64> {
            let first = Simulation.run(seed: seed, isTraced: true)
            let second = Simulation.run(seed: seed, isTraced: true)
            let unseen = Simulation.run(seed: seed)
            expect(first.trace, equals: second.trace)
            #expect(first.trace.count > 20)
            expect(unseen.eventCount, equals: first.eventCount)
        }
    }
}
