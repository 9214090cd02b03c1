import Foundation
import Testing

@Suite("Simulation of a sharded store", .timeLimit(.minutes(10)))
struct SimulationTests {
    /// The number of seeds: 1,000, or `CLOAKROOM_SIMULATION_SEEDS`, at most 1,000,000.
    private static let seedCount = min(
        1_000_000, variable("CLOAKROOM_SIMULATION_SEEDS").flatMap { UInt64($0) } ?? 1_000)

    @Test("All seeds hold all invariants, and every kind of event occurs")
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
        print("\(Self.seedCount) seeds of a sharded store, \(eventCount) events")
        print(SimulationEvent.allCases.map { "\($0) \(coverage[$0])" }.joined(separator: ", "))
    }

    @Test("One seed can be replayed: CLOAKROOM_SIMULATION_SEED, with CLOAKROOM_SIMULATION_MUTANT to inject a bug")
    func replay() {
        let seed = Self.variable("CLOAKROOM_SIMULATION_SEED").flatMap { UInt64($0) }
        let mutant = Self.variable("CLOAKROOM_SIMULATION_MUTANT").flatMap { InjectedBug(rawValue: $0) }
        let outcome = Simulation.run(seed: seed ?? 0, mutant: mutant, isTraced: true)
        if seed != nil { print(outcome.trace.joined(separator: "\n")) }
        #expect(!outcome.trace.isEmpty)
        #expect(outcome.violation == nil)
    }

    @Test("The same seed gives the same run, with and without a trace")
    func sameTrace() {
        for seed in 0..<50 as Range<UInt64> {
            let first = Simulation.run(seed: seed, isTraced: true)
            let second = Simulation.run(seed: seed, isTraced: true)
            let unseen = Simulation.run(seed: seed)
            #expect(first.trace == second.trace)
            #expect(first.trace.count > 20)
            #expect(unseen.eventCount == first.eventCount)
        }
    }

    private static func variable(_ name: String) -> String? { ProcessInfo.processInfo.environment[name] }

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
