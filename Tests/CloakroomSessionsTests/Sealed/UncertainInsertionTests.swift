import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Insertions with an unknown outcome", .timeLimit(.minutes(1)))
struct UncertainInsertionTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("a session whose insertion succeeded without confirmation is removed again, without an event")
    func phantom() async throws {
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.create(Sample.new(1), now: start) }
        expect(server.count, equals: 1)
        records.set { switches in
            switches.losesResponses = false
            switches.isUnavailable = true
        }
        await store.removeUncertain()
        expect(server.count, equals: 1)
        records.set { $0.isUnavailable = false }
        await store.removeUncertain()
        expect(server.count, equals: 0)
        try await expect(empty: store.sessions(of: Sample.account(1), now: start))
        expect(told.created, equals: 0)
        expect(empty: told.ended)
    }

    @Test("a partition of the store that fails delays the removal of other records by a few passes, and loses none")
    func failingPartition() async throws {
        let records = InMemoryRecords(server, partitions: 2)
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        records.set { $0.losesResponses = true }
        for number in 1...200 {
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.create(Sample.new(number), now: start)
            }
        }
        let inserted = server.contents.withLock { Array($0.kept.keys) }
        expect(inserted.count, equals: 200)
        let unremovable = Set(inserted.filter { records.partition(of: $0) == 1 })
        records.set { switches in
            switches.losesResponses = false
            switches.unremovablePartitions = [1]
        }
        for _ in 1...4 { await store.removeUncertain() }
        expect(server.contents.withLock { Set($0.kept.keys) }, equals: unremovable)
        records.set { $0.unremovablePartitions = [] }
        await store.removeUncertain()
        expect(server.count, equals: 0)
        expect(store.uncertain.count, equals: 0)
    }

    @Test("a late insertion is found for a minute, and not searched for afterwards")
    func latePhantom() async throws {
        let begin = ContinuousClock.now
        records.set { $0.isUnavailable = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.create(Sample.new(1), now: start) }
        await store.removeUncertain(at: begin + .seconds(1))
        records.set { $0.isUnavailable = false }
        for second in 2..<50 as Range<Int64> { await store.removeUncertain(at: begin + .seconds(second)) }
        expect(store.uncertain.count, equals: 1)
        await store.removeUncertain(at: begin + .seconds(70))
        expect(store.uncertain.count, equals: 0)
    }

    @Test("the number of uncertain insertions is bounded")
    func bound() {
        let uncertain = UncertainInserts(capacity: 10)
        for number in 0..<100 as Range<UInt64> { uncertain.note(SessionID(number), madeAt: start) }
        expect(uncertain.count, equals: 10)
    }

    @Test("the removal of uncertain insertions runs by itself, and when the store stops")
    func phantomWhileRunning() async throws {
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        let running = Task { await store.run() }
        try await eventually("the store is available") { store.isAvailable }
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.create(Sample.new(1), now: start) }
        records.set { $0.losesResponses = false }
        try await eventually("the record is removed") { server.count == 0 }
        running.cancel()
        await running.value
    }
}
