import ShardSimulation
import Testing

/// Tests of the simulation itself: it must detect each of these bugs within 10,000 seeds.
@Suite("Mutants of the simulation of a sharded store", .timeLimit(.minutes(10)))
struct MutantTests {
    /// Each bug, with a seed that has found it. If the model changes, the others are tried from 0 on.
    private static let table: [(InjectedBug, UInt64)] = [
        (.noWait, 323),
        (.noReassertion, 18),
        (.reassertAfterTrust, 9),
        (.reassertsOnlyAfterLoss, 18),
        (.reassertOverwritesNewer, 8),
        (.reinsertWinsOverEnd, 89),
        (.journalOutlivesTombstones, 52),
        (.insertNotJournaled, 392),
        (.unknownSaveNotJournaled, 7_909),
        (.leaseNotJournaled, 3_943),
        (.trustsLostPartition, 2),
        (.trustsInDoubt, 3_993),
        (.readsReplica, 0),
        (.cutoffIgnored, 1),
        (.cutoffByGatewayClock, 501),
        (.cutoffKeepsEnded, 366),
        (.retriesUnknownResult, 0),
        (.asksWithoutAsking, 18),
        (.markNotJournaled, 4),
        (.unknownMarkCounts, 4),
        (.throttleIgnoresDelay, 4),
        (.throttleFailsOpen, 4),
        (.graceForgotten, 140),
        (.missingMeansEnded, 680),
    ]

    @Test("Each mutant violates an invariant within 10,000 seeds", arguments: table)
    func found(_ mutant: InjectedBug, _ known: UInt64) throws {
        var seed: UInt64? = known
        if Simulation.run(seed: known, mutant: mutant).violation == nil {
            seed = (0..<10_000 as Range<UInt64>).first { Simulation.run(seed: $0, mutant: mutant).violation != nil }
        }
        let first = try #require(seed, "\(mutant) was not found")
        let violation = try #require(Simulation.run(seed: first, mutant: mutant).violation)
        print("\(mutant): seed \(first), \(violation)")
        // Without the mutant the same seed passes.
        #expect(Simulation.run(seed: first).violation == nil)
    }

    @Test("Every mutant is tested")
    func all() {
        #expect(Set(Self.table.map(\.0)) == Set(InjectedBug.allCases))
    }
}
