import RefreshSimulation
import TestSupport
import Testing

#if canImport(Glibc)
    import Glibc
#endif

@Suite("Simulation of token refreshes", .timeLimit(.minutes(3)))
struct SimulationTests {
    @Test("All seeds hold all invariants, and every kind of event occurs", .timeLimit(.minutes(2)))
    func seedsHold() async {
        // Each injected bug is found with 2,000, and the rarest event occurs with 10,000.
        let results = await SeedResults.run(10_000) { seed in
            let outcome = Simulation.run(seed: seed)
            return (outcome.violation.map { "\($0)" }, outcome.eventCount, outcome.coverage.counts)
        }
        for (seed, violation) in results.violations {
            Issue.record("seed \(seed): \(violation). Replay: CLOAKROOM_SIMULATION_SEED=\(seed)")
        }
        let counts = zip(SimulationEvent.allCases, results.counts)
        #expect(counts.filter { $0.1 == 0 }.map(\.0) == [])
        print("\(results.seedCount) seeds, \(results.eventCount) events")
        print(counts.map { "\($0) \($1)" }.joined(separator: ", "))
    }

    @Test("One seed can be replayed: CLOAKROOM_SIMULATION_SEED, with CLOAKROOM_SIMULATION_MUTANT to inject a bug")
    func replay() throws {
        let mutant = Self.variable("CLOAKROOM_SIMULATION_MUTANT").flatMap { InjectedBug(rawValue: $0) }
        let outcome = Simulation.run(seed: Self.replayedSeed ?? 0, mutant: mutant, isTraced: true)
        if Self.replayedSeed != nil { print(outcome.trace.joined(separator: "\n")) }
        #expect(!outcome.trace.isEmpty)
        #expect(outcome.violation == nil)
    }

    private static var replayedSeed: UInt64? {
        variable("CLOAKROOM_SIMULATION_SEED").flatMap { UInt64($0) }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }
}
