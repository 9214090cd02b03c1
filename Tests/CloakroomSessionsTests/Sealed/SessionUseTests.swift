import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions, and the times of use", .timeLimit(.minutes(1)))
struct SessionUseTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("writes a use once in an eighth of the idle timeout, and the last ones before it stops")
    func touches() async throws {
        let (ticket, session) = try await store().create(Sample.new(), now: start)
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        let running = Task { await store.run() }
        try await eventually("the store is available") { store.isAvailable }
        for second in 0..<300 as Range<Int64> { _ = try await store.lookup(ticket, at: start + .seconds(second)) }
        running.cancel()
        await running.value
        // 112.5 s after the sign-in, and after that use.
        expect(server.record(session.id)?.lastUsedAt, equals: start + .seconds(226))
        #expect(server.touched.count <= 2)
        expect(server.touched.last?.keepUntil, equals: start + .milliseconds(226_000 + 1_013_500 + 300_000))
        expect(store.touches.isEmpty)
    }

    @Test("keeps uses that could not be written, and takes them into account meanwhile")
    func touchesWait() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        _ = try await store.lookup(ticket, at: start + .seconds(800))
        records.set { $0.isUnavailable = true }
        await store.writeTouches()
        records.set { $0.isUnavailable = false }
        store.allRecordsChanged()
        try await expect(store.lookup(ticket, at: start + .seconds(1_000), slides: false).session != nil)
        expect(server.record(session.id)?.lastUsedAt, equals: start)
        await store.writeTouches()
        expect(server.record(session.id)?.lastUsedAt, equals: start + .seconds(800))
    }

    @Test("counts a use also if it is unknown whether the session has ended by a cutoff, and is not served")
    func useWithoutCutoffs() async throws {
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        records.set { $0.cutoffsAreUnavailable = true }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await store.lookup(ticket, at: start + .seconds(800))
        }
        records.set { $0.cutoffsAreUnavailable = false }
        try await expect(store.lookup(ticket, at: start + .seconds(1_600)).session != nil)
    }

    @Test("counts a use of a session that is not cached, also while the cache is not trusted")
    func useWithoutLink() async throws {
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        store.connectionChanged(isUp: false)
        for seconds in stride(from: Int64(800), through: 3_200, by: 800) {
            try await expect(store.lookup(ticket, at: start + .seconds(seconds)).session != nil)
        }
    }

    @Test("reads from the store before it expires a session as idle: another replica may have used it")
    func usedElsewhere() async throws {
        let (one, other) = (store, store(InMemoryRecords(server)))
        let (ticket, _) = try await one.create(Sample.new(), now: start)
        _ = try await one.load(ticket, now: start)
        _ = try await other.lookup(ticket, at: start + .seconds(800))
        await other.writeTouches()
        let later = start + one.timeouts.idle + .seconds(50)
        expect(isUnknown(one.lookup(ticket, now: later, slides: true)))
        try await expect(one.load(ticket, now: later).session != nil)
        expect(one.lookup(ticket, now: later, slides: true).session != nil)
    }

    @Test("Rule 73: a store that accepts no writes has accepted no use either: a session that seems idle has not ended")
    func idleWithoutWrites() async throws {
        let (one, other) = (store, store(InMemoryRecords(server)))
        let (ticket, session) = try await one.create(Sample.new(), now: start)
        _ = try await one.load(ticket, now: start)
        let seconds = one.timeouts.idle * 2 / 3
        records.set { $0.failingPartitions = [0] }
        for number in 1...2 { try await expect(one.lookup(ticket, at: start + seconds * number).session != nil) }
        await one.writeTouches()
        let now = start + seconds * 2
        let otherRecords = InMemoryRecords(server)
        otherRecords.set { $0.unremovablePartitions = [0] }
        let third = store(otherRecords)
        await #expect(throws: SessionStoreError(.unavailable)) { try await third.load(ticket, now: now) }
        // It is not signed out either.
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await third.end(ticket, reason: .signedOut, now: now)
        }
        expect(server.record(session.id) != nil)
        // What has reached its end is over in any case.
        let end = start + one.timeouts.absolute
        try await expect(third.load(ticket, now: end).reason, equals: .expiredIdle)
        try await expect(third.end(ticket, reason: .signedOut, now: end) == nil)
        // The store accepts writes again, and the uses are written a moment later.
        records.set { $0.failingPartitions = [] }
        otherRecords.set { $0.unremovablePartitions = [] }
        await #expect(throws: SessionStoreError(.unavailable)) { try await third.load(ticket, now: now) }
        expect(third.unendable.isOver(0, now: .now + PostOutageGracePeriod.length))
        expect(server.record(session.id) != nil)
        await one.writeTouches()
        try await expect(third.load(ticket, now: now).session != nil)
        try await expect(other.load(ticket, now: now + other.timeouts.idle).reason, equals: .expiredIdle)
    }

    @Test("a session that pauses for less than its idle timeout ends nowhere, also before its use is written")
    func usedJustInTime() async throws {
        let (one, other) = (store, store(InMemoryRecords(server)))
        let (ticket, session) = try await one.create(Sample.new(), now: start)
        _ = try await one.load(ticket, now: start)
        // Not recorded, because it is too early.
        let first = start + one.timeouts.touchGranularity - .milliseconds(1)
        _ = try await one.lookup(ticket, at: first)
        // Recorded, and not written yet.
        let second = first + .seconds(900) - .milliseconds(1)
        try await expect(one.lookup(ticket, at: second).session?.lastUsedAt, equals: second)
        expect(server.record(session.id)?.lastUsedAt, equals: start)
        try await expect(other.load(ticket, now: second + one.timeouts.touchWriteInterval).session != nil)
        await one.writeTouches()
        try await expect(other.load(ticket, now: second + .seconds(900)).session != nil)
    }

    @Test("two replicas that are used at about the same time write one use, and count the next from that one")
    func usedAtTwoReplicas() async throws {
        let (one, other) = (store, store(InMemoryRecords(server)))
        let (ticket, session) = try await one.create(Sample.new(), now: start)
        for store in [one, other] { _ = try await store.load(ticket, now: start) }
        let written = start + .milliseconds(112_500)
        _ = try await one.lookup(ticket, at: written)
        _ = try await other.lookup(ticket, at: start + .milliseconds(112_900))
        for store in [one, other] { await store.writeTouches() }
        expect(server.touched.map(\.lastUsedAt), equals: [written])
        expect(other.touches.isEmpty)
        // An eighth of the idle timeout after the use that is written, and not after its own.
        let next = start + .milliseconds(225_390)
        try await expect(other.lookup(ticket, at: next).session?.lastUsedAt, equals: next)
        await other.writeTouches()
        expect(server.record(session.id)?.lastUsedAt, equals: next)
        expect(server.touched.count, equals: 2)
        // The other one still has the earlier time, so its use is due again.
        _ = try await one.lookup(ticket, at: next + .milliseconds(10))
        await one.writeTouches()
        expect(server.touched.count, equals: 2)
        try await expect(one.load(ticket, now: next + .milliseconds(20)).session?.lastUsedAt, equals: next)
    }

    @Test("a clock that jumps back extends no session, and rejected sessions stay rejected")
    func clockJumpsBack() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        let past = start - .seconds(36_000)
        try await expect(store.lookup(ticket, at: past).session?.expiresAt, equals: session.expiresAt)
        try await expect(store.lookup(ticket, at: session.expiresAt).reason != nil)
        try await expect(store.lookup(ticket, at: past).session == nil)
        // Last used in what is now the future: the idle timeout counts from that time.
        let (other, _) = try await store.create(Sample.new(), now: start)
        store.allRecordsChanged()
        try await expect(store.load(other, now: past).session?.lastUsedAt, equals: past)
        let end = past + store.timeouts.idle
        expect(store.lookup(other, now: end - .milliseconds(1), slides: false).session != nil)
        expect(isUnknown(store.lookup(other, now: end, slides: false)))
    }
}
