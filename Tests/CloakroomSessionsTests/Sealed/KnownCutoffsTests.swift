import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The indexes that are known to have no cutoff")
struct KnownCutoffsTests {
    @Test("are known only while their partition is trusted and unchanged")
    func words() {
        let known = KnownCutoffs(capacity: 100)
        known.noteAbsent(.account(1), word: 3)
        expect(known.isAbsent(.account(1), word: 3))
        expect(!known.isAbsent(.account(1), word: 5))
        expect(!known.isAbsent(.account(2), word: 3))
        expect(!known.isAbsent(.providerSession(1), word: 3))
        known.noteAbsent(.account(4), word: 4)
        expect(!known.isAbsent(.account(4), word: 4))
    }

    @Test("are bounded, and the latest ones are kept")
    func bounded() {
        let known = KnownCutoffs(capacity: 160)
        for hash in 0..<100_000 as Range<UInt64> {
            known.noteAbsent(.account(hash), word: 1)
            expect(known.isAbsent(.account(hash), word: 1))
        }
        #expect(known.count <= 320)
        expect(known.isAbsent(.account(99_900), word: 1))
        expect(!known.isAbsent(.account(0), word: 1))
    }
}
