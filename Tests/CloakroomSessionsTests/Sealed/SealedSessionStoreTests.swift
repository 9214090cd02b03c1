import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions", .timeLimit(.minutes(1)))
struct SealedSessionStoreTests {
    typealias Store = SealedSessionStore<InMemoryRecords>

    /// Records the events of the store.
    private final class RecordedEvents: Sendable {
        private let counts = Mutex<(ended: [SessionEndReason], unreadable: [SessionID], created: Int)>(([], [], 0))

        var ended: [SessionEndReason] { counts.withLock { $0.ended } }
        var unreadable: [SessionID] { counts.withLock { $0.unreadable } }
        var created: Int { counts.withLock { $0.created } }

        var events: SessionStoreCallbacks {
            SessionStoreCallbacks(
                onCreated: { self.counts.withLock { $0.created += 1 } },
                onEnded: { reason in self.counts.withLock { $0.ended.append(reason) } },
                onUnreadable: { id in self.counts.withLock { $0.unreadable.append(id) } })
        }
    }

    private let start = Sample.start
    private let server = RecordServer()
    private let records: InMemoryRecords
    private let told = RecordedEvents()

    init() {
        records = InMemoryRecords(server)
    }

    private func store(
        _ records: InMemoryRecords? = nil, configuration: SessionConfiguration = Sample.configuration,
        secrets: SealingKeyring = Sample.secrets
    ) -> Store {
        let store = SealedSessionStore(
            records ?? self.records, configuration: configuration, secrets: secrets, events: told.events)
        store.connectionChanged(isUp: true)
        return store
    }

    private func isUnknown(_ lookup: SessionLookup) -> Bool {
        if case .notCached = lookup { true } else { false }
    }

    @Test("is available while connected, and cannot look up from the cache alone while disconnected")
    func link() async throws {
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        #expect(!store.isAvailable)
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        #expect(try await store.load(ticket, now: start).session != nil)
        #expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        store.connectionChanged(isUp: true)
        #expect(store.isAvailable)
        #expect(try await store.load(ticket, now: start).session != nil)
        #expect(store.lookup(ticket, now: start, slides: false).session != nil)
        store.connectionChanged(isUp: false)
        #expect(!store.isAvailable)
        #expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
    }

    @Test("throws if the records are unreachable, and never reports a missing session")
    func unavailable() async throws {
        let store = store()
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
        #expect(try await store.load(ticket, now: start).session != nil)
        #expect(told.ended.isEmpty)
    }

    @Test("continues with cached, trusted sessions while the records are unreachable")
    func goesOn() async throws {
        let store = store()
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        _ = try await store.load(ticket, now: start)
        records.set { $0.isUnavailable = true }
        #expect(store.lookup(ticket, now: start, slides: true).session != nil)
        #expect(try await store.load(ticket, now: start).session != nil)
    }

    @Test("does not trust a cached session after a write with an unknown outcome")
    func lostResponse() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        _ = try await store.load(ticket, now: start)
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) {
            try await store.end(session.id, of: nil, reason: .revoked, now: start)
        }
        #expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        #expect(try await store.load(ticket, now: start).reason == .revoked)
    }

    @Test("reads a session once for a hundred concurrent requests")
    func oneRead() async throws {
        let (ticket, _) = try await store().create(Sample.new(), now: start)
        let store = store()
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
        #expect(found == 100)
        #expect(server.readCount == before + 1)
    }

    @Test("does not cache a session if it was changed during the read")
    func loadRace() async throws {
        let (ticket, session) = try await store().create(Sample.new(), now: start)
        let store = store()
        records.set { $0.duringRead = { store.recordChanged(session.id) } }
        #expect(try await store.load(ticket, now: start).session != nil)
        #expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
        records.set { $0.duringRead = nil }
        #expect(try await store.load(ticket, now: start).session != nil)
        #expect(store.lookup(ticket, now: start, slides: false).session != nil)
    }

    @Test("returns no session from a read that started before the session's end")
    func endDuringRead() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        let gate = Gate()
        records.set { $0.duringRead = { await gate.passed() } }
        let start = start
        let slow = Task { try await store.load(ticket, now: start) }
        await gate.waitForArrival()
        records.set { $0.duringRead = nil }
        #expect(try await store.end(session.id, of: nil, reason: .revoked, now: start))
        // A request from now on does not join the read that started before.
        #expect(try await store.load(ticket, now: start).reason == .revoked)
        gate.open()
        _ = try await slow.value
        #expect(isUnknown(store.lookup(ticket, now: start, slides: false)))
    }

    @Test("removes a damaged record and reports it, without further effects")
    func damaged() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (other, _) = try await store.create(Sample.new(1), now: start)
        server.damage(session.id) { $0.contents[20] ^= 1 }
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(told.unreadable == [session.id])
        #expect(told.ended == [.unreadable])
        #expect(server.record(session.id) == nil)
        #expect(try await store.lookup(other, at: start).session != nil)
        #expect(try await store.sessions(of: Sample.account(1), now: start).count == 1)
    }

    @Test("removes a malformed record and reports it")
    func noRecord() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.makeForeign(session.id)
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(try await store.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(told.unreadable == [session.id])
    }

    @Test("keeps a record sealed with a secret of another gateway, and reports it once")
    func foreignSecret() async throws {
        let newer = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let older = store(InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, session) = try await newer.create(Sample.new(), now: start)
        for _ in 0..<3 { #expect(try await older.lookup(ticket, at: start).reason == .noSession) }
        #expect(told.unreadable == [session.id])
        #expect(try await newer.lookup(ticket, at: start).session != nil)
    }

    @Test("Rules 9 and 24: ends a session by its ticket, even if no configured secret opens it")
    func endForeign() async throws {
        let newer = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let older = store(InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, session) = try await newer.create(Sample.new(), now: start)
        #expect(try await older.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(server.record(session.id) == nil)
        #expect(try await newer.load(ticket, now: start).reason == .revoked)
    }

    @Test("Rule 17: does not accept another ticket's record whose name has the same prefix")
    func prefix() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        server.damage(session.id) { $0.key = SessionKey($0.key.word0, 1, 2, 3) }
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(try await store.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(server.record(session.id) != nil)
        #expect(told.unreadable.isEmpty)
    }

    @Test("ends no session when the secret changes, and reseals the sessions that it reads")
    func rotation() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, made) = try await old.create(Sample.new(1), now: start)
        let (silent, _) = try await old.create(Sample.new(1), now: start)
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        #expect(try await both.sessions(of: Sample.account(1), now: start).count == 2)
        #expect(try await both.lookup(ticket, at: start).session?.tokens == Sample.tokens(1))
        #expect(server.record(made.id)?.version == 2)
        #expect(try await both.sessions(of: Sample.account(1), now: start).count == 2)
        let new = store(secrets: SealingKeyring(Sample.secret))
        #expect(try await new.lookup(ticket, at: start).session?.user == Sample.user(1))
        #expect(try await new.lookup(silent, at: start).session == nil)
        let ended = try await both.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start)
        #expect(ended.count == 2)
    }

    @Test("does not conflict with a token refresh when it reseals")
    func rotationUnderLease() async throws {
        let old = store(secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, made) = try await old.create(Sample.new(1), now: start)
        let both = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let lease = try #require(try await both.lease(made.key, for: .seconds(30), now: start).lease)
        let read = try #require(try await both.reload(ticket, now: start).session)
        #expect(read.version == 1)
        let refresh = SessionUpdate(tokens: Sample.tokens(2))
        let saved = try await both.save(refresh, ticket: ticket, over: read, under: lease, now: start)
        #expect(saved.session?.version == 2)
        let new = store(secrets: SealingKeyring(Sample.secret))
        #expect(try await new.lookup(ticket, at: start).session?.tokens == Sample.tokens(2))
    }

    @Test("writes a use once a minute, and the last ones before it stops")
    func touches() async throws {
        let (ticket, session) = try await store().create(Sample.new(), now: start)
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        let running = Task { await store.run() }
        try await eventually("the store is available") { store.isAvailable }
        for second in 0..<180 as Range<Int64> { _ = try await store.lookup(ticket, at: start + .seconds(second)) }
        running.cancel()
        await running.value
        #expect(server.record(session.id)?.lastUsedAt == start + .seconds(120))
        #expect(server.touched.count <= 2)
        #expect(server.touched.last?.keepUntil == start + .seconds(120 + 900 + 300))
        #expect(store.touches.isEmpty)
    }

    @Test("keeps uses that could not be written, and takes them into account meanwhile")
    func touchesWait() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        _ = try await store.lookup(ticket, at: start + .seconds(800))
        records.set { $0.isUnavailable = true }
        await store.writeTouches()
        records.set { $0.isUnavailable = false }
        store.allRecordsChanged()
        #expect(try await store.lookup(ticket, at: start + .seconds(1_000), slides: false).session != nil)
        #expect(server.record(session.id)?.lastUsedAt == start)
        await store.writeTouches()
        #expect(server.record(session.id)?.lastUsedAt == start + .seconds(800))
    }

    @Test("counts a use of a session that is not cached, also while the cache is not trusted")
    func useWithoutLink() async throws {
        let store = store()
        let (ticket, _) = try await store.create(Sample.new(), now: start)
        store.connectionChanged(isUp: false)
        for seconds in stride(from: Int64(800), through: 3_200, by: 800) {
            #expect(try await store.lookup(ticket, at: start + .seconds(seconds)).session != nil)
        }
    }

    @Test("reads from the store before it expires a session as idle: another replica may have used it")
    func usedElsewhere() async throws {
        let (one, other) = (store(), store(InMemoryRecords(server)))
        let (ticket, _) = try await one.create(Sample.new(), now: start)
        _ = try await one.load(ticket, now: start)
        _ = try await other.lookup(ticket, at: start + .seconds(800))
        await other.writeTouches()
        #expect(isUnknown(one.lookup(ticket, now: start + .seconds(950), slides: true)))
        #expect(try await one.load(ticket, now: start + .seconds(950)).session != nil)
        #expect(one.lookup(ticket, now: start + .seconds(950), slides: true).session != nil)
    }

    @Test("a clock that jumps back extends no session, and rejected sessions stay rejected")
    func clockJumpsBack() async throws {
        let store = store()
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        let past = start - .seconds(36_000)
        #expect(try await store.lookup(ticket, at: past).session?.expiresAt == session.expiresAt)
        #expect(try await store.lookup(ticket, at: session.expiresAt).reason != nil)
        #expect(try await store.lookup(ticket, at: past).session == nil)
        // Last used in what is now the future: the idle timeout counts from that time.
        let (other, _) = try await store.create(Sample.new(), now: start)
        store.allRecordsChanged()
        #expect(try await store.load(other, now: past).session?.lastUsedAt == past)
        #expect(store.lookup(other, now: past + .seconds(899), slides: false).session != nil)
    }

    @Test("reports the creation and the end of each session once")
    func tells() async throws {
        let store = store()
        var tickets: [SessionTicket] = []
        for number in 0..<4 { tickets.append(try await store.create(Sample.new(number), now: start).0) }
        _ = try await store.end(tickets[0], reason: .signedOut, now: start)
        _ = try await store.end(tickets[0], reason: .signedOut, now: start)
        _ = try await store.endAll(of: Sample.account(1), but: nil, reason: .revoked, now: start)
        for _ in 0..<2 { _ = try await store.lookup(tickets[2], at: start + .seconds(900)) }
        store.expired(idle: 1, absolute: 0)
        #expect(told.created == 4)
        #expect(told.ended == [.signedOut, .revoked, .expiredIdle, .expiredIdle])
    }

    @Test("two replicas with secrets in opposite order do not reseal a session alternately")
    func reversedSecrets() async throws {
        let one = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let other = store(
            InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret, older: [Sample.secret]))
        let (ticket, _) = try await one.create(Sample.new(1), now: start)
        for second in 0..<300 as Range<Int64> {
            for replica in [one, other] {
                // Simulates the notification of the other replica's write.
                replica.allRecordsChanged()
                #expect(try await replica.lookup(ticket, at: start + .seconds(second), slides: false).session != nil)
            }
        }
        #expect(server.replaceCount <= 2)
        // At most once in 10 minutes, on each replica.
        for minute in 1...14 as ClosedRange<Int64> {
            for replica in [one, other] {
                replica.allRecordsChanged()
                #expect(try await replica.lookup(ticket, at: start + .seconds(60 * minute)).session != nil)
            }
        }
        #expect(server.replaceCount <= 6)
    }

    @Test("a session whose insertion succeeded without confirmation is removed again, without an event")
    func phantom() async throws {
        let store = store()
        records.set { $0.losesResponses = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.create(Sample.new(1), now: start) }
        #expect(server.count == 1)
        records.set { switches in
            switches.losesResponses = false
            switches.isUnavailable = true
        }
        await store.removeUncertain()
        #expect(server.count == 1)
        records.set { $0.isUnavailable = false }
        await store.removeUncertain()
        #expect(server.count == 0)
        #expect(try await store.sessions(of: Sample.account(1), now: start).isEmpty)
        #expect(told.created == 0)
        #expect(told.ended.isEmpty)
    }

    @Test("a late insertion is found for a minute, and not searched for afterwards")
    func latePhantom() async throws {
        let store = store()
        let begin = ContinuousClock.now
        records.set { $0.isUnavailable = true }
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.create(Sample.new(1), now: start) }
        await store.removeUncertain(at: begin + .seconds(1))
        records.set { $0.isUnavailable = false }
        for second in 2..<50 as Range<Int64> { await store.removeUncertain(at: begin + .seconds(second)) }
        #expect(store.uncertain.count == 1)
        await store.removeUncertain(at: begin + .seconds(70))
        #expect(store.uncertain.count == 0)
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

    @Test("Rule 34: a record of format 1 belongs to the source that the store was created with")
    func unsourced() throws {
        let store = SealedSessionStore(
            records, configuration: Sample.configuration, secrets: Sample.secrets, unsourced: Sample.source)
        #expect(store.sealing.unsourced == Sample.source)
    }
}
