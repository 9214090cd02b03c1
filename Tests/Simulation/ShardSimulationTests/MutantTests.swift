import TestSupport
import Testing

/// Tests of the simulation itself: it must detect each of these bugs within 1,000 seeds.
@Suite("Mutants of the simulation of a sharded store", .timeLimit(.minutes(10)))
struct MutantTests {
    /// Each bug, with a seed that has found it. If the model changes, the others are tried from 0 on.
    private static let table: [(InjectedBug, UInt64)] = [
        (.noWait, 29),
        (.noReassertion, 2),
        (.reassertAfterTrust, 5),
        (.reassertsOnlyAtPromoted, 5),
        (.reassertOverwritesNewer, 4),
        (.reinsertWinsOverEnd, 95),
        (.journalOutlivesTombstones, 8),
        (.insertNotJournaled, 46),
        (.unknownSaveNotJournaled, 5),
        (.leaseNotJournaled, 43),
        (.repliesNotCompleted, 13),
        (.trustsLostPartition, 7),
        (.trustsInDoubt, 7),
        (.readsReplica, 0),
        (.cutoffIgnored, 1),
        (.cutoffByGatewayClock, 36),
        (.cutoffKeepsEnded, 149),
        (.retriesUnknownResult, 1),
        (.asksWithoutAsking, 52),
        (.markNotJournaled, 15),
        (.unknownMarkCounts, 55),
        (.throttleIgnoresDelay, 4),
        (.throttleFailsOpen, 4),
        (.graceForgotten, 368),
        (.missingMeansEnded, 46),
    ]

    @Test("Each mutant violates an invariant within 1,000 seeds", arguments: table)
    func found(_ mutant: InjectedBug, _ known: UInt64) throws {
        let seeds = [known] + Array(0..<1_000)
        let seed = try require(
            seeds.first { Simulation.run(seed: $0, mutant: mutant).violation != nil }, "\(mutant) was not found")
        let violation = try require(Simulation.run(seed: seed, mutant: mutant).violation)
        print("\(mutant): seed \(seed), \(violation)")
        // Without the mutant the same seed passes.
        expect(Simulation.run(seed: seed).violation, equals: nil)
    }

    @Test("Every mutant is tested")
    func all() {
        expect(Set(Self.table.map(\.0)), equals: Set(InjectedBug.allCases))
    }
}
