import CloakroomCore
import NIOCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Sessions of providers and marks in a real server", .serialized, .timeLimit(.minutes(3)))
struct ValkeyProviderTests {
    private static let start = SessionRecord.start

    @Test("A mark expires by the server's clock")
    func marksExpire() async throws {
        try await withValkeyStore { store, server in
            let key = MarkKey(.usedLogin, hash: 7)
            try await expect(store.setMark([key], lifetime: .seconds(60), now: Self.start))
            expect((50_000...60_000).contains(try await server.lifetime(of: store.keys.mark(key))))
            try await server.ask("DEL", .text(store.keys.mark(key)))
            try await expect(store.setMark([key], lifetime: .milliseconds(1), now: Self.start))
            try await eventually("it has expired") { try await store.hasMark([key], now: Self.start) == false }
            try await expect(store.setMark([key], lifetime: .seconds(60), now: Self.start))
        }
    }

    @Test("A session is in the index of its provider's session before its record exists, and names are removed")
    func providerIndex() async throws {
        try await withValkeyStore { store, server in
            var record = SessionRecord.sample()
            record.provider = 9
            let index = store.keys.sessions(ofProviderSession: 9)
            try await server.ask("SET", .text(store.keys.session(record.id)), "foreign")
            try await expect(store.insert(record), equals: false)
            // Without the time of the latest entry, `born`.
            try await expect(server.ask("ZCARD", .text(index)), equals: .integer(1))
            try await expect(server.ask("ZSCORE", .text(index), .text("\(record.id)")), equals: .null)
            try await server.ask("DEL", .text(store.keys.session(record.id)))
            try await server.ask("ZADD", .text(index), "99999999999999", .text("\(record.id)"))
            try await expect(empty: store.records(in: .providerSession(9), now: Self.start))
            try await expect(store.insert(record))
            try await expect(store.records(in: .providerSession(9), now: Self.start), equals: [record.listed])
            #expect(try await server.lifetime(of: index) > 0)
            _ = try await store.remove(record.id, reason: .revoked, condition: nil, now: Self.start)
            try await expect(server.ask("ZSCORE", .text(index), .text("\(record.id)")), equals: .null)
        }
    }

    @Test("A replacement may extend the time for which the server keeps a record, and does not shorten it")
    func replacementExtends() async throws {
        try await withValkeyStore { store, server in
            let record = SessionRecord.sample()
            _ = try await store.insert(record, keepUntil: Self.start + .seconds(900), now: Self.start)
            let key = store.keys.session(record.id)
            var next = SessionRecord.sample(version: 2)
            let longer = Self.start + .seconds(1_800)
            try await expect(store.replace(next, keepUntil: longer, fence: nil, now: Self.start), equals: .done)
            expect((2_090_000...2_100_000).contains(try await server.lifetime(of: key)))
            next.version = 3
            try await expect(store.replace(next, keepUntil: Self.start, fence: nil, now: Self.start), equals: .done)
            expect((2_080_000...2_100_000).contains(try await server.lifetime(of: key)))
        }
    }
}
