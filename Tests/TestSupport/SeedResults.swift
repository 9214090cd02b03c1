import Foundation

/// The results of many runs of a simulation.
package struct SeedResults: Sendable {
    /// One run, whose counts are those of each kind of event, by its raw value.
    package typealias Run = (violation: String?, eventCount: Int, counts: [Int])

    /// The number of seeds.
    package private(set) var seedCount: UInt64 = 0
    /// The violations of invariants, each with its seed; at most three of each half of the seeds.
    package private(set) var violations: [String] = []
    /// The number of events of all runs.
    package private(set) var eventCount = 0
    /// The sums of the counts.
    package private(set) var counts: [Int] = []

    /// What `CLOAKROOM_SIMULATION_SEED` and `CLOAKROOM_SIMULATION_MUTANT` ask to replay.
    package static var replayed: (seed: UInt64?, mutant: String?) {
        let variables = ProcessInfo.processInfo.environment
        return (variables["CLOAKROOM_SIMULATION_SEED"].flatMap { UInt64($0) }, variables["CLOAKROOM_SIMULATION_MUTANT"])
    }

    /// Runs the seeds from 0 on, the even and the odd ones side by side. Each half stops after its third violation.
    /// - Parameter usualCount: The number of seeds unless `CLOAKROOM_SIMULATION_SEEDS` has another, from 1 to 1,000,000.
    package static func run(
        _ usualCount: UInt64, _ run: @escaping @Sendable (UInt64) async -> Run
    ) async -> SeedResults {
        let given = ProcessInfo.processInfo.environment["CLOAKROOM_SIMULATION_SEEDS"].flatMap { UInt64($0) }
        let seedCount = min(max(given ?? usualCount, 1), 1_000_000)
        return await withTaskGroup(of: SeedResults.self) { group in
            for half in 0..<2 as Range<UInt64> {
                group.addTask {
                    var results = SeedResults()
                    for seed in stride(from: half, to: seedCount, by: 2) where results.violations.count < 3 {
                        let (violation, eventCount, counts) = await run(seed)
                        results.add(eventCount, counts)
                        if let violation { results.violations.append("seed \(seed): \(violation)") }
                    }
                    return results
                }
            }
            return await group.reduce(into: SeedResults(seedCount: seedCount)) { all, half in
                all.add(half.eventCount, half.counts)
                all.violations += half.violations
            }
        }
    }

    private mutating func add(_ eventCount: Int, _ counts: [Int]) {
        self.eventCount += eventCount
        self.counts = self.counts.isEmpty ? counts : zip(self.counts, counts).map { $0 + $1 }
    }
}
