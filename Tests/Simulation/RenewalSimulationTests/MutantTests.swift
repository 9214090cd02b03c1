import RefreshSimulation
import Testing

/// The simulation is worth what it finds: each of these bugs shows within 2,000 seeds.
@Suite("The simulation finds it", .timeLimit(.minutes(3)))
struct MutantTests {
    /// Each bug, with the invariant that it breaks first.
    private static let table: [(InjectedBug, Invariant)] = [
        (.noFencing, .resultPersisted),
        (.noReadUnderLease, .spentOnce),
        (.noCompareAndSet, .resultPersisted),
        (.noLease, .spentOnce),
        (.endlessLease, .progress),
        (.rejectsOnFailure, .endsWithCause),
        (.refreshesWithoutSessionKey, .tokensNeverCrossSessions),
        (.ignoresInvalidations, .endedIsEnded),
        (.outageMeansGone, .endsWithCause),
        (.refreshesByWallClock, .spentOnce),
        (.stopsSavingEarly, .resultPersisted),
        (.forgetsUnusedTokens, .tokensNeverCrossSessions),
    ]

    @Test("if something is broken that a session's life hangs on", arguments: table)
    func found(_ mutant: InjectedBug, _ invariant: Invariant) throws {
        let seed = (0..<2_000 as Range<UInt64>).first { Simulation.run(seed: $0, mutant: mutant).violation != nil }
        let first = try #require(seed, "\(mutant) was not found")
        let violation = try #require(Simulation.run(seed: first, mutant: mutant).violation)
        #expect(violation.invariant == invariant, "\(mutant), seed \(first): \(violation)")
        print("\(mutant): seed \(first), \(violation)")
        // It is the mutant that was found: without it, the same seed holds.
        #expect(Simulation.run(seed: first).violation == nil)
    }

    @Test("and every mutant has its test")
    func all() {
        #expect(Set(Self.table.map(\.0)) == Set(InjectedBug.allCases))
    }
}
