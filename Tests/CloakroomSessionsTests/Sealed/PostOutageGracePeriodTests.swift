import Testing

@testable import CloakroomSessions

@Suite("The period after an outage of the store")
struct PostOutageGracePeriodTests {
    @Test("The first connection of the store is no recovery")
    func first() {
        let recovery = PostOutageGracePeriod()
        #expect(recovery.isOver)
        recovery.connectionChanged(isUp: true)
        #expect(recovery.isOver)
    }

    @Test("A reconnect is a recovery: pending writes go first")
    func back() {
        let recovery = PostOutageGracePeriod()
        recovery.connectionChanged(isUp: true)
        recovery.connectionChanged(isUp: false)
        #expect(recovery.isOver)
        recovery.connectionChanged(isUp: true)
        #expect(!recovery.isOver)
    }
}
