import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

/// The partition of an id is its remainder.
@Suite("Uses that are not written yet", .timeLimit(.minutes(1)))
struct PendingTouchesTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    private func touch(_ number: UInt64, _ seconds: Int64 = 1) -> RecordTouch {
        RecordTouch(
            id: SessionID(number), lastUsedAt: start + .seconds(seconds), keepUntil: start + .seconds(seconds + 900))
    }

    /// A store of which some partitions reject uses.
    private func store(
        failing: Set<Int>, of partitions: Int
    ) -> (store: SealedSessionStore<InMemoryRecords>, records: InMemoryRecords) {
        let records = InMemoryRecords(server, partitions: partitions)
        records.set { $0.failingPartitions = failing }
        var configuration = Sample.configuration
        configuration.cacheSize = 100_000
        return (store(records, configuration: configuration), records)
    }

    private func written(in partition: Int, of partitions: Int) -> Int {
        server.touched.count { Int($0.id.value) % partitions == partition }
    }

    @Test("A partition that fails delays the uses of no other partition, in any pass")
    func partitionFails() async throws {
        let (store, records) = store(failing: [1], of: 4)
        for number in UInt64(0)..<4_000 { store.touches.note(touch(number)) }
        await store.writeTouches()
        expect(server.touched.count, equals: 3_000)
        expect(written(in: 1, of: 4), equals: 0)
        // New uses, also of sessions whose partition is known to fail, and later uses of the same sessions.
        for number in UInt64(4_000)..<8_000 { store.touches.note(touch(number)) }
        for number in UInt64(0)..<4 { store.touches.note(touch(number, 2)) }
        await store.writeTouches()
        expect(server.touched.count, equals: 6_003)
        expect(store.touches.lastUse(of: SessionID(1)), equals: start + .seconds(2))
        records.set { $0.failingPartitions = [] }
        // A new one waits until a pass has found the partition available.
        store.touches.note(touch(8_001))
        await store.writeTouches()
        expect(server.touched.count, equals: 8_003)
        await store.writeTouches()
        expect(server.touched.last, equals: touch(8_001))
        expect(store.touches.isEmpty)
        expect(server.touched.filter { $0.id == SessionID(1) }, equals: [touch(1, 2)])
    }

    @Test("Failing uses are tried again in turn and in a limited number, so that each is reached")
    func failuresTakeTurns() async throws {
        let (store, records) = store(failing: [0, 1], of: 2)
        for number in UInt64(0)..<20_000 { store.touches.note(touch(2 * number + 1)) }
        for number in UInt64(0)..<10 { store.touches.note(touch(2 * number)) }
        // The first that fail show that the partition fails: its others are not sent in this pass.
        await store.writeTouches()
        expect(server.failedTouchCount, equals: 512 + 10)
        records.set { $0.failingPartitions = [1] }
        for pass in 1...5 {
            expect(empty: server.touched)
            await store.writeTouches()
            #expect(server.failedTouchCount <= 522 + 4_608 * pass)
        }
        // The ten behind all others.
        expect(server.touched.count, equals: 10)
    }

    @Test("Uses of a partition that is available again are written although another one still fails")
    func onePartitionIsBack() async throws {
        let (store, records) = store(failing: [0, 1, 2], of: 3)
        for number in UInt64(0)..<15_000 { store.touches.note(touch(number)) }
        await store.writeTouches()
        records.set { $0.failingPartitions = [0, 2] }
        for _ in 0..<5 { await store.writeTouches() }
        expect(written(in: 1, of: 3), equals: 5_000)
        expect(server.touched.count, equals: 5_000)
    }

    @Test("When the store stops, all uses are tried, and those that can be written are")
    func lastPass() async throws {
        let (store, records) = store(failing: [0, 1], of: 2)
        for number in UInt64(0)..<40_000 { store.touches.note(touch(number)) }
        for _ in 0..<2 { await store.writeTouches() }
        expect(empty: server.touched)
        records.set { $0.failingPartitions = [0] }
        await store.writeTouches(isLast: true)
        expect(written(in: 1, of: 2), equals: 20_000)
    }

    @Test("A use during the write of an earlier one is written too; memory is bounded, and each batch")
    func laterUse() throws {
        let touches = PendingTouches(capacity: 3)
        for number in UInt64(1)...5 { touches.note(touch(number)) }
        touches.beginPass()
        let batch = try require(touches.next(limit: 2))
        expect(batch.touches == [touch(1), touch(2)] && !batch.isRetry)
        touches.note(touch(1, 5))
        touches.note(touch(2, 0))
        touches.finish(batch, unwritten: [])
        expect(touches.next(limit: 9)?.touches, equals: [touch(3), touch(1, 5)])
        expect(touches.next(limit: 9) == nil)
        expect(touches.lastUse(of: SessionID(2)), equals: nil)
        expect(touches.lastUse(of: SessionID(4)), equals: nil)
    }
}
