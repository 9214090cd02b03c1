import CloakroomCore
import Synchronization
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
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(told.unreadable == [session.id])
        #expect(told.ended == [.unreadable])
        #expect(server.record(session.id) == nil)
        #expect(try await store.lookup(other, at: start).session != nil)
        #expect(try await store.sessions(of: Sample.account(1), now: start).count == 1)
    }

    @Test("is unavailable for a session with a malformed record, which is reported and kept until its holder ends it")
    func noRecord() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.makeForeign(session.id)
        for _ in 0..<3 {
            let error = await #expect(throws: SessionStoreError.self) { try await store.lookup(ticket, at: start) }
            #expect(error?.reason == .protocolError)
        }
        #expect(told.unreadable == [session.id])
        #expect(server.contents.withLock { $0.foreign == [session.id] })
        #expect(try await store.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(server.contents.withLock { $0.foreign.isEmpty })
        #expect(try await store.lookup(ticket, at: start).reason == .revoked)
    }

    @Test("ends no session because of one damaged reply: a record is removed only if the store returns it again")
    func damagedReply() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        let (id, server) = (session.id, server)
        let contents = try #require(server.record(id)?.contents)
        server.damage(id) { $0.contents[20] ^= 1 }
        records.set { $0.duringRead = { server.damage(id) { $0.contents = contents } } }
        let error = await #expect(throws: SessionStoreError.self) { try await store.lookup(ticket, at: start) }
        #expect(error?.reason == .protocolError)
        #expect(try await store.lookup(ticket, at: start).session != nil)
        #expect(told.ended.isEmpty)
    }

    @Test("ends a session with a damaged record for its holder, with the reason of the holder")
    func endDamaged() async throws {
        let (ticket, session) = try await store.create(Sample.new(1), now: start)
        server.damage(session.id) { $0.contents[20] ^= 1 }
        #expect(try await store.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(server.record(session.id) == nil)
        #expect(told.ended == [.signedOut])
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
        let (ticket, session) = try await store.create(Sample.new(), now: start)
        server.damage(session.id) { $0.key = SessionKey($0.key.word0, 1, 2, 3) }
        #expect(try await store.lookup(ticket, at: start).reason == .noSession)
        #expect(try await store.end(ticket, reason: .signedOut, now: start) == nil)
        #expect(server.record(session.id) != nil)
        #expect(told.unreadable.isEmpty)
    }
}
