import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("The store of sealed sessions, with records that it cannot open", .timeLimit(.minutes(1)))
struct UnreadableRecordTests: SealedStoreSuite {
    let setup = SealedStoreSetup()

    @Test("removes a damaged record and reports it, without further effects")
    func damaged() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (other, _) = try await store.create(Sample.new(1), now: start)
        server.damage(session.id) { $0.contents[20] ^= 1 }
        try await expect(store.lookup(ticket, at: start).reason, equals: .noSession)
        try await expect(store.lookup(ticket, at: start).reason, equals: .noSession)
        expect(told.unreadable, equals: [session.id])
        expect(told.ended, equals: [.unreadable])
        expect(server.record(session.id), equals: nil)
        try await expect(store.lookup(other, at: start).session != nil)
        try await expect(store.sessions(of: Sample.account(1), now: start).count, equals: 1)
    }

    @Test("is unavailable for a session with a malformed record, which is reported and kept until its holder ends it")
    func noRecord() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.makeForeign(session.id)
        for _ in 0..<3 {
            let error = await #expect(throws: SessionStoreError.self) { try await store.lookup(ticket, at: start) }
            expect(error?.reason, equals: .protocolError)
        }
        expect(told.unreadable, equals: [session.id])
        expect(server.contents.withLock { $0.foreign == [session.id] })
        try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
        expect(server.contents.withLock { $0.foreign.isEmpty })
        try await expect(store.lookup(ticket, at: start).reason, equals: .revoked)
    }

    @Test("ends no session because of one damaged reply: a record is removed only if the store returns it again")
    func damagedReply() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (id, server) = (session.id, server)
        let contents = try require(server.record(id)?.contents)
        server.damage(id) { $0.contents[20] ^= 1 }
        records.set { $0.duringRead = { server.damage(id) { $0.contents = contents } } }
        let error = await #expect(throws: SessionStoreError.self) { try await store.lookup(ticket, at: start) }
        expect(error?.reason, equals: .protocolError)
        try await expect(store.lookup(ticket, at: start).session != nil)
        expect(empty: told.ended)
    }

    @Test("ends a session with a damaged record for its holder, with the reason of the holder")
    func endDamaged() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.damage(session.id) { $0.contents[20] ^= 1 }
        try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
        expect(server.record(session.id), equals: nil)
        expect(told.ended, equals: [.signedOut])
    }

    @Test("keeps a record sealed with a secret of another gateway, and reports it once")
    func foreignSecret() async throws {
        let newer = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let older = store(InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, session) = try await newer.create(Sample.new(), now: start)
        for _ in 0..<3 { try await expect(older.lookup(ticket, at: start).reason, equals: .noSession) }
        expect(told.unreadable, equals: [session.id])
        try await expect(newer.lookup(ticket, at: start).session != nil)
    }

    @Test("Rules 9 and 24: ends a session by its ticket, even if no configured secret opens it")
    func endForeign() async throws {
        let newer = store(secrets: SealingKeyring(Sample.secret, older: [Sample.olderSecret]))
        let older = store(InMemoryRecords(server), secrets: SealingKeyring(Sample.olderSecret))
        let (ticket, session) = try await newer.create(Sample.new(), now: start)
        try await expect(older.end(ticket, reason: .signedOut, now: start) == nil)
        expect(server.record(session.id), equals: nil)
        try await expect(newer.load(ticket, now: start).reason, equals: .revoked)
    }

    @Test("Rule 17: does not accept another ticket's record whose name has the same prefix")
    func prefix() async throws {
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        server.damage(session.id) { $0.key = SessionKey($0.key.word0, 1, 2, 3) }
        try await expect(store.lookup(ticket, at: start).reason, equals: .noSession)
        try await expect(store.end(ticket, reason: .signedOut, now: start) == nil)
        expect(server.record(session.id) != nil)
        expect(empty: told.unreadable)
    }
}
