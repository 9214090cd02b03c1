import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The ledger of resealed sessions")
struct ResealTrackerTests {
    private let start = Sample.start

    @Test("allows resealing a session once per period, for a bounded number of sessions")
    func bounds() {
        let ledger = ResealTracker(capacity: 2)
        expect(ledger.admit(SessionID(1), now: start))
        expect(!ledger.admit(SessionID(1), now: start + .seconds(599)))
        expect(ledger.admit(SessionID(2), now: start))
        expect(!ledger.admit(SessionID(3), now: start))
        expect(!ledger.admit(SessionID(1), now: start + .seconds(600)))
        expect(ledger.admit(SessionID(3), now: start + .seconds(600)))
        expect(ledger.admit(SessionID(1), now: start + .seconds(1_200)))
    }

    @Test("A clock that goes back does not prevent resealing")
    func clockGoesBack() {
        let ledger = ResealTracker(capacity: 10)
        expect(ledger.admit(SessionID(1), now: start))
        expect(ledger.admit(SessionID(1), now: start - .seconds(10_000)))
    }
}
