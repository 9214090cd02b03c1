import RefreshSimulation
import TestSupport
import Testing

/// Tests of the simulation itself: it must detect each of these bugs within 2,000 seeds.
@Suite("Mutants of the simulation", .timeLimit(.minutes(3)))
struct MutantTests {
    /// Each bug, with the invariant that it violates first.
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
        (.forgetsProvenance, .logoutWins),
        (.repeatsLogins, .loginOnce),
        (.checksLogoutBeforeCreating, .logoutWins),
        (.noLogoutMark, .logoutWins),
        (.marksLogoutAfterEnding, .logoutWins),
        (.marksTokenBeforeEnding, .logoutWins),
        (.separateMarks, .loginOnce),
        (.acknowledgesWithoutStore, .logoutWins),
    ]

    @Test("Each mutant violates its invariant within 2,000 seeds", arguments: table)
    func found(_ mutant: InjectedBug, _ invariant: Invariant) throws {
        let seed = (0..<2_000 as Range<UInt64>).first { Simulation.run(seed: $0, mutant: mutant).violation != nil }
        let first = try require(seed, "\(mutant) was not found")
        let violation = try require(Simulation.run(seed: first, mutant: mutant).violation)
        expect(violation.invariant, equals: invariant, "\(mutant), seed \(first): \(violation)")
        print("\(mutant): seed \(first), \(violation)")
        // Without the mutant the same seed passes.
        expect(Simulation.run(seed: first).violation, equals: nil)
    }

    @Test("Every mutant is tested")
    func all() {
        expect(Set(Self.table.map(\.0)), equals: Set(InjectedBug.allCases))
    }
}
