import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The period after an outage of the store")
struct PostOutageGracePeriodTests {
    @Test("There is none before an outage")
    func first() {
        let recovery = PostOutageGracePeriod(partitions: 4)
        for partition in 0..<4 { expect(recovery.isOver(partition)) }
    }

    @Test("begins for the partitions that are back, and no others: pending writes go first")
    func back() {
        let recovery = PostOutageGracePeriod(partitions: 4)
        let now = ContinuousClock.now
        recovery.begin([1..<2, 3..<9], now: now)
        expect((0..<4).map { recovery.isOver($0, now: now) }, equals: [true, false, true, false])
        let last = now + PostOutageGracePeriod.length - .nanoseconds(1)
        expect(!recovery.isOver(1, now: last))
        expect(recovery.isOver(1, now: now + PostOutageGracePeriod.length))
        expect(recovery.isOver(-1, now: now))
        expect(recovery.isOver(4, now: now))
    }
}
