import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Uses that another replica has recorded", .serialized, .timeLimit(.minutes(3)))
struct ValkeyTouchTests {
    private static let granularity = Duration.milliseconds(112_500)
    private static let programs = ["redis-server", RedisServer.Options.valkey]
    private let record = SessionRecord.sample()

    private func with(
        _ program: String, _ test: (Replica, Replica, RedisServer) async throws -> Void
    ) async throws {
        try await withReplicas(RedisServer.Options(program: program), test)
    }

    /// - Returns: Whether the use was written.
    private func touch(_ replica: Replica, after milliseconds: Int64) async throws -> Bool {
        let used = SessionRecord.start + .milliseconds(milliseconds)
        let use = RecordTouch(id: record.id, lastUsedAt: used, keepUntil: used + .milliseconds(1_313_500))
        return try await replica.records.touch([use], granularity: Self.granularity) == nil
    }

    private func lastUse(_ replica: Replica) async throws -> Duration? {
        try await replica.records.read(record.id).record.map { $0.lastUsedAt - SessionRecord.start }
    }

    /// The number of changes that the server has executed, each of which it would send to its replicas.
    private func changeCount(_ server: RedisServer) async throws -> Int? {
        let lines = try await server.ask("INFO", "persistence").text?.split(whereSeparator: \.isNewline)
        return lines?.first { $0.hasPrefix("rdb_changes_since_last_save:") }
            .flatMap { Int($0.drop { $0 != ":" }.dropFirst()) }
    }

    @Test("They change nothing at the server, and no replica reads again because of them", arguments: programs)
    func superseded(program: String) async throws {
        try await with(program) { a, b, server in
            _ = try await a.records.insert(record)
            _ = try await b.records.read(record.id)
            try await expect(touch(a, after: 112_500))
            try await b.changes.time(of: .changed(record.id))
            _ = try await b.records.read(record.id)

            let before = try await require(changeCount(server))
            for milliseconds in [112_900, 113_500, 224_999, 100_000] as [Int64] {
                for replica in [a, b] {
                    try await expect(!touch(replica, after: milliseconds))
                }
            }
            let after = try await changeCount(server)
            expect(after, equals: before)
            try await expect(lastUse(b), equals: .milliseconds(112_500))
            expect(b.changes.count(.changed(record.id)), equals: 1)

            try await expect(touch(a, after: 225_000))
            try await b.changes.time(of: .changed(record.id), count: 2)
            try await expect(lastUse(b), equals: .milliseconds(225_000))
            let last = try await changeCount(server)
            #expect(try require(last) > before)
        }
    }

    @Test("A replica whose use was not written is notified of later changes", arguments: programs)
    func tracked(program: String) async throws {
        try await with(program) { a, b, _ in
            _ = try await a.records.insert(record)
            for (replica, milliseconds) in [(a, 112_500), (b, 112_900)] as [(Replica, Int64)] {
                _ = try await replica.records.read(record.id)
                _ = try await touch(replica, after: milliseconds)
            }
            _ = try await a.records.remove(record.id, reason: .revoked, condition: nil, now: SessionRecord.start)
            try await b.changes.time(of: .changed(record.id))
            try await expect(b.records.read(record.id), equals: .ended(.revoked))
        }
    }

    @Test("They are written if the server would delete the record too early", arguments: programs)
    func shortLife(program: String) async throws {
        try await with(program) { a, b, server in
            _ = try await a.records.insert(record)
            _ = try await touch(a, after: 112_500)
            let key = a.records.keys.session(record.id)
            // As a replica with a shorter idle timeout would have left it.
            try await server.ask("PEXPIRE", .text(key), "1300000")
            try await expect(touch(b, after: 112_900))
            // The time that the caller gave, and 300 s more.
            expect((1_600_000...1_613_500).contains(try await server.lifetime(of: key)))
            try await expect(lastUse(a), equals: .milliseconds(112_900))
            try await expect(!touch(a, after: 112_950))
        }
    }

    @Test("A full server accepts the next use, and those that are not written", arguments: programs)
    func fullServer(program: String) async throws {
        try await with(program) { a, b, server in
            _ = try await a.records.insert(record)
            try await server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
            try await server.ask("CONFIG", "SET", "maxmemory", "1")
            for (milliseconds, expected) in [(112_500, true), (112_900, false), (225_000, true)] as [(Int64, Bool)] {
                try await expect(touch(expected ? a : b, after: milliseconds), equals: expected)
            }
            try await expect(lastUse(b), equals: .milliseconds(225_000))
        }
    }
}
