import RefreshSimulation
import Testing

#if canImport(Glibc)
    import Glibc
#endif

@Suite("Simulation of token refreshes", .timeLimit(.minutes(3)))
struct SimulationTests {
    /// The number of seeds in CI, which the documents state.
    static let seedCount: UInt64 = 10_000

    @Test("10,000 seeds hold all invariants, and every kind of event occurs", .timeLimit(.minutes(2)))
    func seedsHold() async {
        let halves = await withTaskGroup(of: (Coverage, [(UInt64, Violation)], Int).self) { group in
            for half in 0..<2 as Range<UInt64> {
                group.addTask { Self.run(stride(from: half, to: Self.seedCount, by: 2)) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var coverage = Coverage()
        var eventCount = 0
        for (part, violations, count) in halves {
            coverage.add(part)
            eventCount += count
            for (seed, violation) in violations {
                Issue.record("seed \(seed): \(violation). Replay: CLOAKROOM_SIMULATION_SEED=\(seed)")
            }
        }
        #expect(coverage.missing.isEmpty)
        print("\(Self.seedCount) seeds, \(eventCount) events")
        print(SimulationEvent.allCases.map { "\($0) \(coverage[$0])" }.joined(separator: ", "))
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

    /// Runs seeds, and stops after the third violation.
    private static func run(_ seeds: StrideTo<UInt64>) -> (Coverage, [(UInt64, Violation)], Int) {
        var coverage = Coverage()
        var violations: [(UInt64, Violation)] = []
        var eventCount = 0
        for seed in seeds {
            let outcome = Simulation.run(seed: seed)
            coverage.add(outcome.coverage)
            eventCount += outcome.eventCount
            if let violation = outcome.violation { violations.append((seed, violation)) }
            if violations.count == 3 { break }
        }
        return (coverage, violations, eventCount)
    }
}
