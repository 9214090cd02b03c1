import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Cutoffs on a real server", .timeLimit(.minutes(3)))
struct ValkeyCutoffTests {
    private static let start = SessionRecord.start
    private let account = RecordIndex.account(7)

    private func cutoff(_ store: ValkeyRecordStore) async throws -> SessionCutoff? {
        try await store.cutoffs([account], now: Self.start).first ?? nil
    }

    private func setCutoff(_ store: ValkeyRecordStore, lifetime: Duration = .seconds(60)) async throws {
        try await store.setCutoff(account, keeping: nil, before: nil, lifetime: lifetime, now: Self.start)
    }

    private func stored(_ store: ValkeyRecordStore, _ number: UInt64 = 1) async throws -> SessionRecord {
        try await require(store.read(SessionID(number)).record)
    }

    @Test("A cutoff is kept as long as the index, and no shorter than before")
    func lifetime() async throws {
        try await withValkeyStore { store, server in
            func remaining() async throws -> Int64 { try await server.lifetime(of: store.keys.cutoff(account)) }
            try await setCutoff(store)
            try await expect((50_000...60_000).contains(remaining()))
            try await setCutoff(store, lifetime: .seconds(10))
            #expect(try await remaining() > 50_000)
            // The record's end is an hour away.
            _ = try await store.insert(.sample())
            try await setCutoff(store, lifetime: .seconds(10))
            #expect(try await remaining() > 3_600_000)
        }
    }

    @Test("A cutoff is not before the births of its index, even if the server's clock went back")
    func clock() async throws {
        try await withValkeyStore { store, server in
            _ = try await store.insert(.sample())
            let made = try await stored(store)
            let future = try require(made.birth.account) + 10_000_000
            try await server.ask("HSET", .text(store.keys.session(made.id)), "b", .integer(future))
            try await server.ask("ZADD", .text(store.keys.sessions(in: account)), .integer(future), "born")
            try await setCutoff(store)
            let cutoff = try await require(cutoff(store))
            expect(cutoff.time, equals: future)
            expect(cutoff.ends(try await stored(store), in: account))
            // A session that begins after that is later, whatever the clock shows.
            _ = try await store.insert(.sample(2))
            let next = try await stored(store, 2)
            expect(next.birth.account, equals: future + 1)
            expect(!cutoff.ends(next, in: account))
        }
    }

    @Test("A session that begins after a requested cutoff is later, even if the server's clock went back")
    func clockAfterRequest() async throws {
        try await withValkeyStore { store, server in
            _ = try await store.insert(.sample())
            let future = try await require(stored(store).birth.account) + 10_000_000
            try await server.ask("SET", .text(store.keys.cutoff(account)), "5 - - r\(future):-")
            let cutoff = try await require(cutoff(store))
            expect(cutoff.request?.time, equals: future)
            expect(cutoff.ends(try await stored(store), in: account))
            _ = try await store.insert(.sample(2))
            let next = try await stored(store, 2)
            expect(next.birth.account, equals: future + 1)
            expect(!cutoff.ends(next, in: account))
        }
    }

    @Test(
        "Rule 73: a value that is no cutoff makes the store unavailable",
        arguments: [
            "", "x", "-1 - -", "1", "1 -", "1 - x", "1 00 -", "99999999999999999999 - -", "1 - - rx:-", "1 - - r1",
            "1 - - r1:x", "1 - - r-1:-",
        ])
    func invalid(value: String) async throws {
        try await withValkeyStore { store, server in
            try await server.ask("SET", .text(store.keys.cutoff(account)), .text(value))
            await #expect(throws: SessionStoreError(.unavailable)) { try await cutoff(store) }
        }
    }

    @Test("Rule 73: a key of another type makes the store unavailable; a later release may add fields")
    func foreign() async throws {
        try await withValkeyStore { store, server in
            try await server.ask("RPUSH", .text(store.keys.cutoff(account)), "1 - -")
            await #expect(throws: SessionStoreError(.unavailable)) { try await cutoff(store) }
            await #expect(throws: SessionStoreError(.unavailable)) { try await setCutoff(store) }
            try await server.ask("DEL", .text(store.keys.cutoff(account)))
            try await server.ask("SET", .text(store.keys.cutoff(account)), "5 00000000000000ff -7 more")
            try await expect(
                cutoff(store),
                equals: SessionCutoff(time: 5, kept: SessionID(255), createdBefore: SessionTime(milliseconds: -7)))
        }
    }
}
