import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("A server without free memory", .serialized, .timeLimit(.minutes(3)))
struct FullServerTests {
    private static let start = SessionRecord.start
    private static let programs = ["redis-server", RedisServer.Options.valkey]

    private func with(_ program: String, _ test: (Replica, RedisServer) async throws -> Void) async throws {
        try await withReplica(RedisServer.Options(program: program), test)
    }

    private func fill(_ server: RedisServer) async throws {
        try await server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        try await server.ask("CONFIG", "SET", "maxmemory", "1")
        await #expect(throws: ValkeyCommandError.self) { try await server.ask("SET", "other", "1") }
    }

    @Test("rejects new sessions and logins; all others are used, refreshed and ended", arguments: programs)
    func records(program: String) async throws {
        try await with(program) { replica, server in
            let (store, start) = (replica.records, Self.start)
            for number in UInt64(1)...2 { try await expect(store.insert(.sample(number))) }
            try await fill(server)
            await #expect(throws: SessionStoreError(.full)) { try await store.insert(.sample(3)) }
            try await expect(store.read(SessionID(3)), equals: .none)

            let use = RecordTouch(
                id: SessionID(1), lastUsedAt: start + .seconds(60), keepUntil: start + .seconds(1_800))
            try await expect(store.touch([use]) == nil)
            var used = SessionRecord.sample()
            used.lastUsedAt = use.lastUsedAt
            try await expect(store.read(used.id), equals: .record(used))
            // 1,740 s and the time that the reason for its end is kept.
            expect((2_000_000...2_040_000).contains(try await server.lifetime(of: store.keys.session(used.id))))

            let lease = try await require(store.lease(used.id, for: .seconds(30), now: start).lease)
            try await expect(store.lease(used.id, for: .seconds(30), now: start), equals: .heldByOther)
            (used.version, used.contents) = (2, SessionRecord.sample(version: 2).contents)
            let until = start + .seconds(1_800)
            try await expect(
                store.replace(used, keepUntil: until, fence: lease.fencingToken, now: start), equals: .done)
            try await expect(store.read(used.id), equals: .record(used))
            try await store.release(used.id, fence: lease.fencingToken)

            let token = MarkKey(.logoutToken, hash: 1)
            try await expect(store.setMark(token, to: start.wallTime, lifetime: .seconds(60), now: start))
            try await expect(
                store.setMark(token, to: start.wallTime, lifetime: .seconds(60), now: start), equals: false)
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.setMark(
                    MarkKey(.usedLogin, hash: 1), to: start.wallTime, lifetime: .seconds(60), now: start)
            }
            for _ in 1...2 {
                try await store.setCutoff(
                    .account(7), keeping: nil, before: nil, lifetime: .seconds(3_600), now: start)
            }
            #expect(try await store.cutoffs([.account(7)], now: start).first??.time ?? 0 > 0)
            #expect(try await server.lifetime(of: store.keys.cutoff(.account(7))) > 0)
            try await expect(
                store.remove(used.id, reason: .signedOut, condition: nil, now: start), equals: .removed(used))
            try await expect(store.read(used.id), equals: .ended(.signedOut))
        }
    }

    @Test(
        "A rejected sign-in leaves no id in any list: of the account, the typed name or the provider",
        arguments: programs)
    func rejectedIDs(program: String) async throws {
        try await with(program) { replica, server in
            let store = replica.records
            func record(_ number: UInt64) -> SessionRecord {
                var record = SessionRecord.sample(number)
                (record.name, record.provider) = (8, 9)
                return record
            }
            try await expect(store.insert(record(1)))
            try await fill(server)
            for number in UInt64(2)...9 {
                await #expect(throws: SessionStoreError(.full)) { try await store.insert(record(number)) }
            }
            for index in store.keys.indexes(of: record(1)) {
                let members = try await server.ask("ZRANGE", .text(index), "0", "-1").elements ?? []
                expect(members.compactMap(\.text), equals: ["\(SessionID(1))", "born"], "\(index)")
            }
            // An account without sessions has no list then, except for its latest sign-in.
            await #expect(throws: SessionStoreError(.full)) { try await store.insert(.sample(10, account: 70)) }
            let others = try await server.ask("ZRANGE", .text(store.keys.sessions(of: 70)), "0", "-1").elements ?? []
            expect(others.compactMap(\.text), equals: ["born"])
        }
    }

    @Test("Users stay signed in, get new tokens, and sign out, also everywhere", arguments: programs)
    func sessions(program: String) async throws {
        try await with(program) { replica, server in
            let start = Sample.start
            let store = SealedSessionStore(
                replica.records, configuration: Sample.configuration, secrets: Sample.secrets)
            store.connectionChanged(isUp: true, partitions: HashSlot.count)
            let (one, first) = try await store.create(Sample.new(), now: start)
            let (other, _) = try await store.create(Sample.new(), now: start)
            try await fill(server)
            await #expect(throws: SessionStoreError(.full)) { try await store.create(Sample.new(), now: start) }

            let later = start + .seconds(800)
            for ticket in [one, other] { try await expect(store.lookup(ticket, at: later).session != nil) }
            await store.writeTouches()
            expect(store.touches.isEmpty)
            try await expect(replica.records.read(first.id, now: later).record?.lastUsedAt, equals: later)

            let lease = try await require(store.lease(first.key, for: .seconds(30), now: later).lease)
            let update = SessionUpdate(tokens: Sample.tokens(5, obtainedAt: later))
            let saved = try await store.save(update, ticket: one, over: first, under: lease, now: later)
            expect(saved.session?.tokens, equals: Sample.tokens(5, obtainedAt: later))
            await store.release(lease, of: first.key)

            try await expect(store.end(one, reason: .signedOut, now: later) != nil)
            try await expect(store.takeAll(.account(Sample.account()), reason: .revoked, now: later).count, equals: 1)
            try await expect(store.lookup(other, at: later).reason, equals: .revoked)
        }
    }
}
