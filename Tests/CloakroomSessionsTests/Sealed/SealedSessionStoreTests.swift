import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions", .timeLimit(.minutes(1)))
struct SealedSessionStoreTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("is available while connected, and cannot look up from the cache alone while disconnected")
    func link() async throws {
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        expect(!store.isAvailable)
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        try await expect(store.load(ticket, now: start).session != nil)
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        store.connectionChanged(isUp: true)
        expect(store.isAvailable)
        try await expect(store.load(ticket, now: start).session != nil)
        expect(store.lookup(ticket, now: start, slides: false).session != nil)
        store.connectionChanged(isUp: false)
        expect(!store.isAvailable)
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
    }

    @Test("throws if the records are unreachable, and never reports a missing session")
    func unavailable() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        records.set { $0.isUnavailable = true }
        let failure = SessionStoreError(.unavailable)
        await #expect(throws: failure) { try await store.load(ticket, now: start) }
        await #expect(throws: failure) { try await store.reload(ticket, now: start) }
        await #expect(throws: failure) { try await store.create(Sample.new(), now: start) }
        await #expect(throws: failure) { try await store.end(ticket, reason: .signedOut, now: start) }
        await #expect(throws: failure) { try await store.lease(session.key, for: .seconds(1), now: start) }
        await #expect(throws: failure) { try await store.sessions(of: Sample.account(), now: start) }
        await #expect(throws: failure) {
            try await store.endAll(of: Sample.account(), but: nil, reason: .revoked, now: start)
        }
        records.set { $0.isUnavailable = false }
        try await expect(store.load(ticket, now: start).session != nil)
        expect(empty: told.ended)
    }

    @Test("continues with cached, trusted sessions while the records are unreachable")
    func goesOn() async throws {
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        _ = try await store.load(ticket, now: start)
        records.set { $0.isUnavailable = true }
        expect(store.lookup(ticket, now: start, slides: true).session != nil)
        try await expect(store.load(ticket, now: start).session != nil)
    }

    @Test("does not trust a cached session after a write with an unknown outcome")
    func lostResponse() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        _ = try await store.load(ticket, now: start)
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await store.end(session.id, of: nil, reason: .revoked, now: start)
        }
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        try await expect(store.load(ticket, now: start).reason, equals: .revoked)
    }

    @Test("reads a session once for a hundred concurrent requests")
    func oneRead() async throws {
        let (ticket, _) = try await store().create(Sample.new(), now: start)
        let gate = Gate()
        records.set { $0.duringRead = { await gate.passed() } }
        let before = server.readCount
        let start = start
        let found = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<100 { group.addTask { try await store.load(ticket, now: start).session != nil } }
            await gate.waitForArrival()
            gate.open()
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        expect(found, equals: 100)
        // A request that looks into the cache just before the read ends, and joins just after it, reads once more.
        expect((1...2).contains(server.readCount - before))
    }

    @Test("does not cache a session if it was changed during the read")
    func loadRace() async throws {
        let (ticket, session) = try await store().create(Sample.new(), now: start)
        records.set { $0.duringRead = { store.recordChanged(session.id) } }
        try await expect(store.load(ticket, now: start).session != nil)
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        records.set { $0.duringRead = nil }
        try await expect(store.load(ticket, now: start).session != nil)
        expect(store.lookup(ticket, now: start, slides: false).session != nil)
    }

    @Test("returns no session from a read that started before the session's end")
    func endDuringRead() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        let gate = Gate()
        records.set { $0.duringRead = { await gate.passed() } }
        let start = start
        let slow = Task { try await store.load(ticket, now: start) }
        await gate.waitForArrival()
        records.set { $0.duringRead = nil }
        try await expect(store.end(session.id, of: nil, reason: .revoked, now: start))
        // A request from now on does not join the read that started before.
        try await expect(store.load(ticket, now: start).reason, equals: .revoked)
        gate.open()
        _ = try await slow.value
        expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
    }

    @Test("reports the creation and the end of each session once")
    func tells() async throws {
        var tickets: [SessionTicket] = []
        for number in 0..<4 { tickets.append(try await store.create(Sample.new(number), now: start).0) }
        _ = try await store.end(tickets[0], reason: .signedOut, now: start)
        _ = try await store.end(tickets[0], reason: .signedOut, now: start)
        _ = try await store.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start)
        for _ in 0..<2 { _ = try await store.lookup(tickets[2], at: start + store.timeouts.idle) }
        store.expired(idle: 1, absolute: 0)
        expect(told.created, equals: 4)
        expect(told.ended, equals: [.signedOut, .revoked, .expiredIdle, .expiredIdle])
    }
}
