import CloakroomCore
import Testing

@testable import CloakroomSessions

@Suite("What remembers which sessions were sealed anew")
struct ResealTrackerTests {
    private let start = Sample.start

    @Test("admits a session once in a period, and no more sessions than it has room for")
    func bounds() {
        let ledger = ResealTracker(capacity: 2)
        #expect(ledger.admit(SessionID(1), now: start))
        #expect(!ledger.admit(SessionID(1), now: start + .seconds(599)))
        #expect(ledger.admit(SessionID(2), now: start))
        #expect(!ledger.admit(SessionID(3), now: start))
        #expect(!ledger.admit(SessionID(1), now: start + .seconds(600)))
        #expect(ledger.admit(SessionID(3), now: start + .seconds(600)))
        #expect(ledger.admit(SessionID(1), now: start + .seconds(1_200)))
    }

    @Test("A clock that goes back does not keep sessions from being sealed anew")
    func clockGoesBack() {
        let ledger = ResealTracker(capacity: 10)
        #expect(ledger.admit(SessionID(1), now: start))
        #expect(ledger.admit(SessionID(1), now: start - .seconds(10_000)))
    }
}
