import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Accounts with too many sessions, on a real server", .timeLimit(.minutes(3)))
struct ValkeySurplusTests {
    private static let start = SessionRecord.start
    private let new = SessionID(1_000)

    private func rule(_ limit: Int) -> SurplusRule {
        SurplusRule(limit: limit, accounts: [7], usedAfter: Self.start - .seconds(1), new: new)
    }

    /// Inserts records 1 to a number, and then the new one, which ends an hour later.
    private func fill(_ store: ValkeyRecordStore, _ count: UInt64) async throws {
        for number in Array(1...count) + [new.value] {
            var record = SessionRecord.sample(number)
            record.createdAt = Self.start + .seconds(Int64(number))
            record.expiresAt = Self.start + .seconds(number == new.value ? 7_200 : 3_600)
            try await expect(store.insert(record))
        }
    }

    private func listed(_ store: ValkeyRecordStore, _ server: RedisServer) async throws -> Set<UInt64> {
        let members = try await server.ask("ZRANGE", .text(store.keys.sessions(of: 7)), "0", "-1").elements ?? []
        return Set(members.compactMap { $0.text.flatMap { SessionID($0) }?.value })
    }

    @Test("The oldest session is chosen beyond the limit, and none up to it")
    func exact() async throws {
        try await withValkeyStore { store, _ in
            try await fill(store, 100)
            try await expect(store.surplus(of: 7, by: rule(101), now: Self.start), equals: .none)
            try await expect(store.surplus(of: 7, by: rule(100), now: Self.start), equals: .records([SessionID(1)]))
            try await expect(
                store.surplus(of: 7, by: rule(92), now: Self.start),
                equals: .records([SessionID(1), SessionID(2)]))
            try await expect(
                store.surplus(of: 7, by: rule(10), now: Self.start),
                equals: .records((1...12 as ClosedRange<UInt64>).map { SessionID($0) }))
            try await expect(store.surplus(of: 8, by: rule(1), now: Self.start), equals: .none)
        }
    }

    @Test("Ids without a record end no active session, and are removed from the index")
    func stale() async throws {
        try await withValkeyStore { store, server in
            try await fill(store, 100)
            for number in 51...100 as ClosedRange<UInt64> {
                try await server.ask("DEL", .text(store.keys.session(SessionID(number))))
            }
            var remaining = try await listed(store, server)
            expect(remaining.count, equals: 101)
            while remaining.count > 60 {
                try await expect(store.surplus(of: 7, by: rule(60), now: Self.start), equals: .none)
                let next = try await listed(store, server)
                #expect(next.count < remaining.count)
                guard next.count < remaining.count else { return }
                remaining = next
            }
            expect(remaining.isSuperset(of: 1...50))
            expect(remaining.contains(new.value))
        }
    }

    @Test("An id whose record may be about to be written stays in the index, and does not count")
    func young() async throws {
        try await withValkeyStore { store, server in
            for number in [1, 2, new.value] as [UInt64] { try await expect(store.insert(.sample(number))) }
            try await server.ask("DEL", .text(store.keys.session(SessionID(2))))
            try await expect(store.surplus(of: 7, by: rule(2), now: Self.start), equals: .none)
            try await expect(store.surplus(of: 7, by: rule(1), now: Self.start), equals: .records([SessionID(1)]))
            try await expect(listed(store, server), equals: [1, 2, new.value])
        }
    }

    @Test("Values that are no records neither count nor are removed")
    func foreign() async throws {
        try await withValkeyStore { store, server in
            try await fill(store, 3)
            let keys = (1...2 as ClosedRange<UInt64>).map { store.keys.session(SessionID($0)) }
            try await server.ask("DEL", .text(keys[0]))
            try await server.ask("SET", .text(keys[0]), "x")
            try await server.ask("HSET", .text(keys[1]), "a", "x")
            try await expect(store.surplus(of: 7, by: rule(3), now: Self.start), equals: .none)
            try await expect(store.surplus(of: 7, by: rule(1), now: Self.start), equals: .records([SessionID(3)]))
            try await expect(listed(store, server), equals: [1, 2, 3, new.value])
        }
    }

    @Test("The sample has 32 different ids, and all of the index in the end")
    func sample() async throws {
        try await withValkeyStore { store, _ in
            try await fill(store, 99)
            var seen: Set<SessionID> = []
            for begin in stride(from: Int64(0), to: 1_000_000, by: 50_000) {
                let reply = try await store.run(
                    SessionScripts.surplus, [store.keys.sessions(of: 7)], [.integer(95), .integer(begin)])
                let elements = try require(reply.elements)
                expect(elements.first, equals: .integer(100))
                let ids = elements.dropFirst().compactMap { $0.text.flatMap { SessionID($0) } }
                expect(ids.count == 32 && Set(ids).count == 32)
                expect(Array(ids.prefix(16)), equals: (1...16 as ClosedRange<UInt64>).map { SessionID($0) })
                seen.formUnion(ids)
            }
            expect(seen.count, equals: 100)
        }
    }

    private static let counted: Set<Substring> = [
        "del", "eval", "evalsha", "exists", "get", "hgetall", "hmget", "hset", "set", "zadd", "zrange", "zrem",
        "zscore",
    ]

    /// The number of calls of each command so far that reads or writes sessions.
    private func calls(_ server: RedisServer) async throws -> [Substring: Int] {
        try await server.calls().filter { Self.counted.contains($0.key) }
    }

    @Test("A sign-in at the limit has the same number of commands for 40, 100 and 400 sessions")
    func commandCount() async throws {
        var counts: [[Substring: Int]] = []
        for limit in [40, 100, 400] {
            try await withSealedStore { store, server in
                for _ in 0..<limit { _ = try await store.create(Sample.new(1), now: Sample.start) }
                let now = Sample.start + .seconds(10)
                func signIn() async throws -> [SessionID] {
                    let (_, session) = try await store.create(Sample.new(1), now: now)
                    return try await store.takeOldest(
                        of: session.user, over: limit, but: session.id, reason: .replaced, now: now
                    ).map(\.id)
                }
                // The first one makes the scripts known to the server.
                try await expect(signIn().count, equals: 1)
                let before = try await calls(server)
                try await expect(signIn().count, equals: 1)
                let after = try await calls(server)
                counts.append(after.merging(before) { $0 - $1 })
            }
        }
        expect(counts[0], equals: counts[1])
        expect(counts[1], equals: counts[2])
        expect(counts[2]["hmget"], equals: 32)
        #expect(try require(counts[2]["zrange"]) < 50)
        // The removal of the oldest session reads its record.
        expect(counts[2]["hgetall"], equals: 1)
    }
}
