import CloakroomCore
import Foundation
import GRDB
import TestSupport
import Testing

@testable import CloakroomSessions

/// Files of earlier releases, and processes of the release before that still have the file open. Never change a
/// statement here: they are those of the releases.
@Suite("A SQLite file of an earlier release", .timeLimit(.minutes(2)))
struct SQLiteMigrationTests {
    private let start = SampleRecord.start

    private static let release1 = """
        PRAGMA application_id = 0x434c4b52;
        PRAGMA journal_mode = WAL;
        CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
        INSERT INTO grdb_migrations VALUES ('1');
        CREATE TABLE session (
            id INTEGER PRIMARY KEY, key BLOB NOT NULL, account INTEGER NOT NULL, created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL, last_used_at INTEGER NOT NULL, keep_until INTEGER NOT NULL,
            version INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0, leased_until INTEGER NOT NULL DEFAULT 0,
            client BLOB NOT NULL, contents BLOB NOT NULL
        );
        CREATE INDEX session_account ON session (account);
        CREATE INDEX session_keep_until ON session (keep_until);
        CREATE TABLE ended (id INTEGER PRIMARY KEY, reason TEXT NOT NULL, keep_until INTEGER NOT NULL);
        CREATE INDEX ended_keep_until ON ended (keep_until);
        CREATE TABLE throttle (
            scope INTEGER NOT NULL, hash INTEGER NOT NULL, count INTEGER NOT NULL, since INTEGER NOT NULL,
            not_before INTEGER NOT NULL, keep_until INTEGER NOT NULL, PRIMARY KEY (scope, hash)
        ) WITHOUT ROWID;
        CREATE INDEX throttle_keep_until ON throttle (keep_until);
        CREATE TABLE change (
            number INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, process INTEGER NOT NULL, at INTEGER NOT NULL
        );
        CREATE TABLE tally (only INTEGER PRIMARY KEY CHECK (only = 1), count INTEGER NOT NULL, step INTEGER NOT NULL);
        INSERT INTO tally VALUES (1, 0, 0);
        CREATE TRIGGER session_added AFTER INSERT ON session BEGIN
            UPDATE tally SET count = count + 1, step = step + 1;
        END;
        CREATE TRIGGER session_removed AFTER DELETE ON session BEGIN
            UPDATE tally SET count = count - 1, step = step + 1;
        END;
        """

    private static let release2 =
        release1 + """

            INSERT INTO grdb_migrations VALUES ('2');
            ALTER TABLE session ADD COLUMN name INTEGER;
            ALTER TABLE session ADD COLUMN lease_fence INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE session ADD COLUMN lease_end INTEGER NOT NULL DEFAULT 0;
            CREATE INDEX session_name ON session (name);
            """

    /// How the releases insert a record; only the first one has no column for the typed name.
    private func insertion(_ record: SessionRecord, hasName: Bool = true) -> String {
        func blob(_ bytes: [UInt8]) -> String { "x'" + bytes.map { String(format: "%02x", $0) }.joined() + "'" }
        let values = [
            "\(record.key.id.rowID)", blob(record.key.bytes), "\(Int64(bitPattern: record.account))",
            "\(record.createdAt.milliseconds)", "\(record.expiresAt.milliseconds)",
            "\(record.lastUsedAt.milliseconds)", "\(record.expiresAt.milliseconds)", "\(record.version)",
            blob(record.client), blob(record.contents),
        ]
        let name = record.name.map { "\(Int64(bitPattern: $0))" } ?? "NULL"
        return """
            INSERT OR IGNORE INTO session (id, key, account, created_at, expires_at, last_used_at, keep_until, version,
                client, contents\(hasName ? ", name" : "")) VALUES (\(values.joined(separator: ", "))
                \(hasName ? ", \(name)" : ""));
            """
    }

    @Test("is migrated, and keeps its records", arguments: [release1, release2])
    func migrates(release: String) async throws {
        let directory = try SQLiteTestDirectory()
        let isFirst = release == Self.release1
        var records = (1...3).map { SampleRecord.record($0) }
        if !isFirst { records[1].name = .max }
        try directory.execute(release)
        for record in records { try directory.execute(insertion(record, hasName: !isFirst)) }
        try directory.execute("INSERT INTO throttle VALUES (1, 2, 3, 4, 5, \(SampleRecord.end.milliseconds))")
        let store = directory.store()
        for record in records { #expect(try await store.read(record) == .record(record)) }
        #expect(try await store.records(of: 7, now: start).count == 3)
        let state = try await store.throttleStates([ThrottleKey(.accountAndAddress, hash: 2)], now: start)[0]
        #expect(state?.count == 3)
        // What the migration adds works, for old records too.
        var next = records[0]
        (next.version, next.provider) = (2, 5)
        #expect(try await store.replace(next, fence: nil, now: start) == .done)
        #expect(try await store.records(ofProviderSession: 5, now: start) == [next])
        #expect(try await store.setMark([MarkKey(.usedLogin, hash: 1)], lifetime: .seconds(60), now: start))
        // The migration runs once.
        let other = directory.store()
        #expect(try await other.records(ofProviderSession: 5, now: start) == [next])
        #expect(try await other.hasMark([MarkKey(.usedLogin, hash: 1)], now: start))
        #expect(directory.log.texts == [])
    }

    @Test("may be in use by a process of the release before, which keeps what it does not know")
    func besideReleaseBefore() async throws {
        let directory = try SQLiteTestDirectory()
        try directory.execute(Self.release2)
        try directory.execute(insertion(SampleRecord.record(1)))
        let store = directory.store()
        try await store.whileRunning { changes in
            var provided = SampleRecord.record(2)
            provided.provider = 9
            #expect(try await store.insert(provided))
            // The other process creates a session.
            try directory.execute(insertion(SampleRecord.record(3)))
            #expect(try await store.read(SampleRecord.record(3)) == .record(SampleRecord.record(3)))
            try await eventually("it is counted") { store.count == 3 }
            // It uses, leases and changes the session of a provider: the hash stays.
            let id = provided.key.id
            try directory.execute(
                """
                UPDATE session SET last_used_at = \(start.milliseconds + 60_000), keep_until = max(keep_until, 1)
                    WHERE id = \(id.rowID);
                UPDATE session SET fence = 1, leased_until = 5, lease_fence = 1, lease_end = 5 WHERE id = \(id.rowID);
                UPDATE session SET account = 7, created_at = created_at, expires_at = expires_at, version = 2,
                    client = client, contents = contents, name = NULL WHERE id = \(id.rowID) AND version = 1 AND fence = 1;
                INSERT INTO change (id, process, at) VALUES (\(id.rowID), 77, \(start.milliseconds))
                """)
            await changes.wait(for: .changed(id))
            var expected = provided
            (expected.version, expected.lastUsedAt) = (2, start + .seconds(60))
            #expect(try await store.records(ofProviderSession: 9, now: start) == [expected])
            // It ends it.
            try directory.execute(
                """
                DELETE FROM session WHERE id = \(id.rowID);
                INSERT OR REPLACE INTO ended VALUES (\(id.rowID), 'signed_out', \(SampleRecord.end.milliseconds));
                INSERT INTO change (id, process, at) VALUES (\(id.rowID), 77, \(start.milliseconds))
                """)
            try await eventually("it has ended") { try await store.read(id, now: start) == .ended(.signedOut) }
            #expect(try await store.records(ofProviderSession: 9, now: start).isEmpty)
            // And it sees what this process writes: the columns that it reads are those of its release.
            let queue = try DatabaseQueue(path: directory.file)
            let rows = try queue.read { db in
                try Row.fetchAll(
                    db,
                    sql: """
                        SELECT key, account, created_at, expires_at, last_used_at, version, client, contents, fence,
                            leased_until, name, lease_fence, lease_end FROM session
                        """)
            }
            #expect(rows.count == 2)
        }
    }

    @Test("finds the sessions of a provider through an index, which has no entries for other sessions")
    func index() async throws {
        let directory = try SQLiteTestDirectory()
        let store = directory.store()
        for number in 1...100 { _ = try await store.insert(SampleRecord.record(UInt64(number))) }
        let queue = try DatabaseQueue(path: directory.file)
        let plan = try await queue.read { db in
            try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN SELECT id FROM session WHERE provider = ?", arguments: [1])
                .map { $0["detail"] as String }
        }
        #expect(plan.count == 1 && plan[0].contains("session_provider"))
    }

    @Test("Expired marks are deleted")
    func expiredMarks() async throws {
        let directory = try SQLiteTestDirectory(now: SampleRecord.end)
        let store = directory.store()
        let (old, young) = (MarkKey(.usedLogin, hash: 1), MarkKey(.usedLogin, hash: 2))
        #expect(try await store.setMark([old], lifetime: .seconds(3_600), now: start))
        #expect(try await store.setMark([young], lifetime: .seconds(3_601), now: start))
        try await store.whileRunning { _ in
            try await eventually("it is deleted") { try await store.hasMark([old], now: start) == false }
            #expect(try await store.hasMark([young], now: start))
        }
    }
}
