import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

/// A failover loses a record, and the gateway that has written it writes it again a little later.
@Suite("Records that a failover has lost", .timeLimit(.minutes(1)))
struct LostRecordTests: SealedStoreSuite {
    let setup = SealedStoreSetup()
    private let failure = SessionStoreError(.unavailable)

    private typealias Store = SealedSessionStore<InMemoryRecords>

    /// A store after an outage.
    private func recovered() -> Store {
        store.connectionChanged(isUp: false)
        store.partitionsChanged([0..<1], areTrusted: true, afterOutage: true)
        return store
    }

    private func endGracePeriod(_ store: Store) {
        store.recovery.begin([0..<1], now: .now - PostOutageGracePeriod.length)
    }

    @Test("Rule 75: a session without a record is neither missing nor ended after an outage, until the period is over")
    func missing() async throws {
        let store = recovered()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let lost = try require(server.lose(session.id))
        await #expect(throws: failure) { try await store.load(ticket, now: start) }
        await #expect(throws: failure) { try await store.reload(ticket, now: start) }
        // An operator's or a user's revocation must not report that there is nothing to end.
        await #expect(throws: failure) { try await store.end(session.id, of: nil, reason: .revoked, now: start) }
        server.restore(lost)
        try await expect(store.load(ticket, now: start).session != nil)
        _ = server.lose(session.id)
        store.allRecordsChanged()
        endGracePeriod(store)
        try await expect(store.load(ticket, now: start).reason, equals: .noSession)
        try await expect(!store.end(session.id, of: nil, reason: .revoked, now: start))
    }

    @Test("Rule 75: the period does not end while this process has records to write again")
    func writtenAgainLater() async throws {
        let stranger = SessionTicket.random
        try await expect(store.load(stranger, now: start).reason, equals: .noSession)
        expect(store.allowsNewRefreshes(of: SessionKey(stranger)))
        store.partitionsLackWrites([0..<1])
        await #expect(throws: failure) { try await store.load(stranger, now: start) }
        expect(!store.allowsNewRefreshes(of: SessionKey(stranger)))
    }

    @Test("A missing record is no proof while its partition is not trusted")
    func untrusted() async throws {
        let stranger = SessionTicket.random
        try await expect(store.load(stranger, now: start).reason, equals: .noSession)
        store.connectionChanged(isUp: false)
        await #expect(throws: failure) { try await store.load(stranger, now: start) }
    }

    @Test("Rule 75: the reason for an end and a cutoff are proofs, also in that period")
    func proofs() async throws {
        let store = recovered()
        let (ticket, _) = try await store.create(Sample.new(1), now: start)
        let (other, session) = try await store.create(Sample.new(1), now: start)
        _ = try await store.end(ticket, reason: .signedOut, now: start)
        try await expect(store.load(ticket, now: start).reason, equals: SessionEndReason.signedOut.unauthorizedReason)
        server.loseIndexEntries(of: session.id)
        _ = try await store.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start)
        try await expect(store.load(other, now: start).reason, equals: .revoked)
    }

    @Test("Rule 75: a refresh neither ends a session whose record was lost nor gives up its new tokens")
    func refresh() async throws {
        let store = recovered()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let lease = try await require(store.lease(session.key, for: .seconds(30), now: start).lease)
        let lost = try require(server.lose(session.id))
        let update = SessionUpdate(tokens: Sample.tokens(2))
        await #expect(throws: failure) { try await store.lease(session.key, for: .seconds(30), now: start) }
        await #expect(throws: failure) { try await store.reject(session, under: lease, now: start) }
        await #expect(throws: failure) {
            try await store.save(update, ticket: ticket, over: session, under: lease, now: start)
        }
        server.restore(lost)
        let saved = try await store.save(update, ticket: ticket, over: session, under: lease, now: start)
        expect(saved.session?.tokens, equals: Sample.tokens(2))
        // An end is found.
        _ = try await store.end(ticket, reason: .signedOut, now: start)
        try await expect(store.lease(session.key, for: .seconds(30), now: start), equals: .notFound)
        try await expect(store.save(update, ticket: ticket, over: session, under: lease, now: start).isNotFound)
    }

    @Test("Rule 75: a sign-out in that period succeeds, and the record that is written again later stays ended")
    func signOut() async throws {
        let store = recovered()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let lost = try require(server.lose(session.id))
        try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
        server.restore(lost)
        try await expect(store.load(ticket, now: start).reason, equals: SessionEndReason.signedOut.unauthorizedReason)
        // Again, with the first reason.
        try await expect(store.end(ticket, reason: .replaced, now: start) == nil)
        try await expect(store.load(ticket, now: start).reason, equals: SessionEndReason.signedOut.unauthorizedReason)
    }

    @Test("A sign-out with an invented ticket stores nothing otherwise")
    func inventedTicket() async throws {
        try await expect(store.end(SessionTicket.random, reason: .signedOut, now: start) == nil)
        expect(server.contents.withLock { $0.ended.isEmpty })
    }

    @Test("Other partitions are not affected")
    func otherPartition() async throws {
        let store = store(InMemoryRecords(server, partitions: 2))
        let tickets = (0..<200).map { _ in SessionTicket.random }
        store.partitionsChanged([1..<2], areTrusted: true, afterOutage: true)
        for ticket in tickets {
            if store.records.partition(of: SessionKey(ticket).id) == 0 {
                try await expect(store.load(ticket, now: start).reason, equals: .noSession)
            } else {
                await #expect(throws: failure) { try await store.load(ticket, now: start) }
            }
        }
    }
}

extension SessionTicket {
    /// A ticket that no store has issued.
    fileprivate static var random: SessionTicket {
        var generator = SystemRandomNumberGenerator()
        return SessionTicket(using: &generator)
    }
}
