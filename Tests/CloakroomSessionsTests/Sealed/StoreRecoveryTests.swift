import Testing

@testable import CloakroomSessions

@Suite("The time after an outage of the store")
struct PostOutageGracePeriodTests {
    @Test("A link that comes up for the first time is no recovery")
    func first() {
        let recovery = PostOutageGracePeriod()
        #expect(recovery.isOver)
        recovery.connectionChanged(isUp: true)
        #expect(recovery.isOver)
    }

    @Test("A link that comes back is: who has something to keep goes first")
    func back() {
        let recovery = PostOutageGracePeriod()
        recovery.connectionChanged(isUp: true)
        recovery.connectionChanged(isUp: false)
        #expect(recovery.isOver)
        recovery.connectionChanged(isUp: true)
        #expect(!recovery.isOver)
    }
}
