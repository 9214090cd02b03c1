import CloakroomCore
import Crypto
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// A file of each version of the tables. Once released, never change a digest here; add the one of the next version.
@Suite("A SQLite file", .timeLimit(.minutes(2)))
struct SQLiteMigrationTests {
    private let start = SampleRecord.start

    /// The statements that the release executed: they are those of today, as long as their digest is the one below.
    private static let version1 =
        """
        PRAGMA application_id = 0x434c4b52;
        PRAGMA journal_mode = WAL;
        CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
        INSERT INTO grdb_migrations VALUES ('1');

        """ + SQLiteSchema.version1

    @Test("of version 1 has the tables of the release")
    func version1Digest() {
        let digest = SHA256.hash(data: Data(SQLiteSchema.version1.utf8)).map { String(format: "%02x", $0) }.joined()
        expect(digest, equals: "6b3abe058dac11094b6a84e1f51f9df6f03366fa9ea0adcbba9e3f298581c882")
    }

    private func insertion(_ record: SessionRecord) -> String {
        func blob(_ bytes: [UInt8]) -> String { "x'" + bytes.map { String(format: "%02x", $0) }.joined() + "'" }
        func optional(_ hash: UInt64?) -> String { hash.map { "\(Int64(bitPattern: $0))" } ?? "NULL" }
        let values = [
            "\(Int64(bitPattern: record.key.id.value))", blob(record.key.bytes), "\(Int64(bitPattern: record.account))",
            "\(record.createdAt.milliseconds)", "\(record.expiresAt.milliseconds)",
            "\(record.lastUsedAt.milliseconds)", "\(record.expiresAt.milliseconds)", "\(record.version)",
            blob(record.client), blob(record.contents), optional(record.name), optional(record.provider),
        ]
        return """
            INSERT INTO session (id, key, account, created_at, expires_at, last_used_at, keep_until, version,
                client, contents, name, provider) VALUES (\(values.joined(separator: ", ")))
            """
    }

    @Test("of version 1 opens, and keeps its records")
    func version1() async throws {
        let directory = try SQLiteTestDirectory()
        var records = (1...3).map { SampleRecord.record($0) }
        (records[1].name, records[2].provider) = (.max, 5)
        try directory.execute(Self.version1)
        for record in records { try directory.execute(insertion(record)) }
        try directory.execute("INSERT INTO throttle VALUES (1, 2, 3, 4, 5, \(SampleRecord.end.milliseconds))")
        let store = directory.store()
        for record in records { try await expect(store.read(record), equals: .record(record)) }
        try await expect(store.records(in: .account(7), now: start).count, equals: 3)
        try await expect(store.records(in: .providerSession(5), now: start), equals: [records[2].listed])
        try await expect(
            store.throttleStates([ThrottleKey(.accountAndAddress, hash: 2)], now: start)[0]?.count, equals: 3)
        try await expect(store.setMark([MarkKey(.usedLogin, hash: 1)], lifetime: .seconds(60), now: start))
        try await expect(directory.store().hasMark([MarkKey(.usedLogin, hash: 1)], now: start))
        expect(directory.log.texts, equals: [])
    }

    @Test("finds the sessions of a provider through an index, which has no entries for other sessions")
    func index() async throws {
        let directory = try SQLiteTestDirectory()
        let store = directory.store()
        for number in 1...100 { _ = try await store.insert(SampleRecord.record(UInt64(number))) }
        let plan = try Database(path: directory.file).run(
            "EXPLAIN QUERY PLAN SELECT id FROM session WHERE provider = ?", [1])
        expect(plan.count == 1 && plan[0].text(3)?.contains("session_provider") == true)
    }

    @Test("loses its expired marks")
    func expiredMarks() async throws {
        let directory = try SQLiteTestDirectory(now: SampleRecord.end)
        let store = directory.store()
        let (old, young) = (MarkKey(.usedLogin, hash: 1), MarkKey(.usedLogin, hash: 2))
        try await expect(store.setMark([old], lifetime: .seconds(3_600), now: start))
        try await expect(store.setMark([young], lifetime: .seconds(3_601), now: start))
        try await store.whileRunning { _ in
            try await eventually("it is deleted") { try await store.hasMark([old], now: start) == false }
            try await expect(store.hasMark([young], now: start))
        }
    }
}
