import Testing

@testable import CloakroomSessions

@Suite("The time after an outage of the store")
struct StoreRecoveryTests {
    @Test("A link that comes up for the first time is no recovery")
    func first() {
        let recovery = StoreRecovery()
        #expect(recovery.isOver)
        recovery.linkChanged(isUp: true)
        #expect(recovery.isOver)
    }

    @Test("A link that comes back is: who has something to keep goes first")
    func back() {
        let recovery = StoreRecovery()
        recovery.linkChanged(isUp: true)
        recovery.linkChanged(isUp: false)
        #expect(recovery.isOver)
        recovery.linkChanged(isUp: true)
        #expect(!recovery.isOver)
    }
}
