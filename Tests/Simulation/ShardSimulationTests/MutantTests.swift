import Testing

/// Tests of the simulation itself: it must detect each of these bugs within 10,000 seeds.
@Suite("Mutants of the simulation of a sharded store", .timeLimit(.minutes(10)))
struct MutantTests {
    /// Each bug, with a seed that has found it. If the model changes, the others are tried from 0 on.
    private static let table: [(InjectedBug, UInt64)] = [
        (.noWait, 46),
        (.noReassertion, 11),
        (.reassertAfterTrust, 9),
        (.reassertsOnlyAfterLoss, 18),
        (.reassertOverwritesNewer, 45),
        (.reinsertWinsOverEnd, 75),
        (.journalOutlivesTombstones, 52),
        (.insertNotJournaled, 11),
        (.unknownSaveNotJournaled, 7_909),
        (.leaseNotJournaled, 3_943),
        (.trustsLostPartition, 50),
        (.trustsInDoubt, 3_993),
        (.readsReplica, 0),
        (.cutoffIgnored, 1),
        (.cutoffByGatewayClock, 36),
        (.cutoffKeepsEnded, 366),
        (.retriesUnknownResult, 0),
        (.asksWithoutAsking, 15),
        (.markNotJournaled, 15),
        (.unknownMarkCounts, 15),
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
