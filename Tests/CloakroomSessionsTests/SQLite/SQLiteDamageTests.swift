import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// Files that are full, damaged or written by other programs.
@Suite("An invalid SQLite file", .timeLimit(.minutes(2)))
struct SQLiteDamageTests {
    private let directory: SQLiteTestDirectory
    private let store: SQLiteRecordStore
    private let start = SampleRecord.start

    init() throws {
        directory = try SQLiteTestDirectory()
        store = directory.store()
    }

    @Test(
        "has rows that are no valid records: each is unreadable, can be removed, and affects no other record",
        arguments: [
            "UPDATE session SET key = 'text'", "UPDATE session SET key = x'00'",
            "UPDATE session SET key = zeroblob(32)",
            "UPDATE session SET account = 1.5", "UPDATE session SET expires_at = 'never'",
            "UPDATE session SET version = x'01'", "UPDATE session SET fence = 'x'",
            "UPDATE session SET contents = 'text'",
            "UPDATE session SET client = 7",
        ])
    func foreignRows(sql: String) async throws {
        let (foreign, sound) = (SampleRecord.record(1), SampleRecord.record(2))
        _ = try await store.insert(foreign)
        try directory.execute(sql)
        _ = try await store.insert(sound)
        let id = foreign.key.id
        try await expect(store.read(foreign), equals: .unreadable)
        try await expect(store.read(sound), equals: .record(sound))
        try await expect(store.lease(id, for: .seconds(1), now: start), equals: .notFound)
        try await expect(store.replace(SampleRecord.record(1, version: 2), fence: nil, now: start), equals: .notFound)
        try await expect(store.remove(id, reason: .unreadable, condition: nil, now: start), equals: .notFound)
        try await expect(store.read(foreign), equals: .ended(.unreadable))
        try await expect(store.records(in: .account(7), now: start), equals: [sound.listed])
        expect(store.count, equals: 1)
    }

    @Test("has changed bytes in a record, which are returned unchanged for the seal to reject")
    func foreignContents() async throws {
        var record = SampleRecord.record(1)
        _ = try await store.insert(record)
        try directory.execute("UPDATE session SET contents = x'00ff00'")
        record.contents = [0, 0xff, 0]
        try await expect(store.read(record), equals: .record(record))
    }

    @Test("has foreign rows in its other tables, which are skipped")
    func foreignNeighbours() async throws {
        let key = ThrottleKey(.account, hash: 1)
        let forever = Int64.max
        _ = try await store.throttleStates([key], now: start)
        try directory.execute(
            """
            INSERT INTO ended VALUES (1, 'abducted', \(forever)), (2, x'00', \(forever));
            INSERT INTO throttle VALUES (\(key.scope.rawValue), 1, -5, 'x', 0, \(forever));
            UPDATE tally SET count = 'many';
            """)
        try await expect(store.read(SessionID(1), now: start), equals: .ended(.revoked))
        try await expect(store.read(SessionID(2), now: start), equals: .ended(.revoked))
        try await expect(store.throttleStates([key], now: start), equals: [nil])
        let counter = ThrottleCounter(key, SignInThrottle.rule(.account))
        let result = ThrottleResult([counter], [nil], now: start)
        try await expect(store.countAttempt([counter], now: start), equals: result)
        try await expect(store.throttleStates([key], now: start)[0]?.count, equals: 1)
    }

    @Test("has overwritten pages: their records are unavailable, never missing, and nothing crashes")
    func damagedPages() async throws {
        var store = directory.store()
        let records = (0..<300).map { SampleRecord.record(UInt64($0), size: 1_500) }
        for record in records { _ = try await store.insert(record) }
        store = directory.store()
        try directory.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: directory.file))
        for page in stride(from: 20, to: 100, by: 2) {
            try handle.seek(toOffset: UInt64(page) * 4_096)
            try handle.write(contentsOf: Data(repeating: 0xa5, count: 4_096))
        }
        try handle.close()
        var outcomes: [String: Int] = [:]
        for record in records {
            do {
                let lookup = try await store.read(record)
                expect(lookup == .record(record) || lookup == .unreadable)
                outcomes["read", default: 0] += 1
            } catch {
                expect(error as? SessionStoreError, equals: SessionStoreError(.unavailable))
                outcomes["unavailable", default: 0] += 1
            }
        }
        #expect((outcomes["read"] ?? 0) > 0)
        #expect((outcomes["unavailable"] ?? 0) > 0)
        // Intact pages are read between the damaged ones; this must not cause further log lines.
        expect(directory.log.texts.count { $0.hasPrefix("error") }, equals: 1)
        expect(directory.log.texts.last?.hasPrefix("error session store is damaged in part"), equals: true)
        expect(!store.isFailing)
    }

    @Test("has one overwritten page: uses of its sessions are not recorded, those of all others are")
    func uses() async throws {
        for number: UInt64 in 1...50 { _ = try await store.insert(SampleRecord.record(number, size: 1_500)) }
        let touches = (UInt64(1)...50).map { number in
            RecordTouch(
                id: SampleRecord.record(number).key.id, lastUsedAt: start + .seconds(60), keepUntil: SampleRecord.end)
        }
        _ = try directory.overwrite(directory.page(with: Data(repeating: 5, count: 1_000)))
        let unwritten = try await require(store.touch(touches, granularity: .seconds(1)))
        expect(unwritten.ids.contains(SampleRecord.record(5).key.id))
        #expect(unwritten.ids.count < 5)
        expect(unwritten.error != nil)
        for number: UInt64 in 1...50 where !unwritten.ids.contains(SampleRecord.record(number).key.id) {
            try await expect(store.read(SampleRecord.record(number)).record?.lastUsedAt, equals: start + .seconds(60))
        }
    }

    @Test("has one overwritten page: an operation that needs it does not fail those in the same commit")
    func commit() async throws {
        for number: UInt64 in 1...50 { _ = try await store.insert(SampleRecord.record(number, size: 1_500)) }
        _ = try directory.overwrite(directory.page(with: Data(repeating: 5, count: 1_000)))
        let queue = DatabaseQueue(try Database(path: directory.file))
        let writer = SQLiteWriter(queue)
        let (outcomes, continuation) = AsyncStream<Int>.makeStream()
        // The connection is busy until all wait for it.
        queue.async { _ in
            for number in 0..<20 {
                let id = number == 0 ? SampleRecord.record(5).key.id : SessionID(UInt64(number))
                writer.submit(
                    SQLiteWrite(durability: .full, latest: .now + .seconds(30)) { db in
                        try db.endSession(id, reason: .signedOut, keepReasonUntil: SampleRecord.end)
                        return { continuation.yield(number) }
                    } fail: { _ in
                        continuation.yield(-1)
                    })
            }
        }
        var all: [Int] = []
        for await outcome in outcomes {
            all.append(outcome)
            if all.count == 20 { break }
        }
        expect(all.sorted(), equals: [-1] + Array(1..<20))
    }

    @Test("is full: failed writes are unavailable, everything else continues, and writes work again once there is room")
    func full() async throws {
        let (first, second) = (SampleRecord.record(1), SampleRecord.record(2, size: 100_000))
        _ = try await store.insert(first)
        let writing = try await store.connector.file().writer.connection
        try await store.whileRunning { changes in
            try await writing.execute("PRAGMA max_page_count = 1")
            for _ in 0..<3 {
                await #expect(throws: SessionStoreError(.unavailable)) { try await store.insert(second) }
            }
            try await expect(store.read(first), equals: .record(first))
            try await expect(store.read(second), equals: .none)
            expect(store.count, equals: 1)
            try await writing.execute("PRAGMA max_page_count = 100000")
            try await expect(store.insert(second))
            expect(changes.events, equals: [.up])
        }
        expect(directory.log.texts.count { $0.hasPrefix("error session store failed") }, equals: 1)
        expect(directory.log.texts.count { $0.hasPrefix("notice session store recovered") }, equals: 1)
    }

    @Test("is full: the gateway is not ready until a write succeeds, which no request needs to make")
    func fullUntilThereIsRoom() async throws {
        let records = directory.store()
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        try await RunningStore.with(store) { store in
            let (ticket, _) = try await store.create(Sample.new(1), now: start)
            let writing = try await records.connector.file().writer.connection
            try await writing.execute("PRAGMA max_page_count = 1")
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await records.insert(SampleRecord.record(2, size: 100_000))
            }
            // Without a record nothing is written, which shows nothing.
            _ = try await records.remove(SessionID(9), reason: .signedOut, condition: nil, now: start)
            expect(!store.isAvailable)
            expect(directory.log.texts.last?.hasPrefix("error session store failed"), equals: true)
            try await expect(store.load(ticket, now: start).session != nil)
            try await writing.execute("PRAGMA max_page_count = 100000")
            try await eventually("the gateway is ready") { store.isAvailable }
            try await eventually("the recovery is logged") {
                directory.log.texts.last?.hasPrefix("notice session store recovered") == true
            }
        }
    }

    @Test("Rule 22: reveals no row contents in its log lines about failures")
    func canary() async throws {
        var record = SampleRecord.record(1, account: 0x00c0_ffee_c0ff_ee00)
        record.contents = Array("canary-contents".utf8)
        record.client = Array("canary-client".utf8)
        _ = try await store.read(record)
        try directory.execute(
            """
            CREATE TRIGGER refuse BEFORE INSERT ON session BEGIN SELECT RAISE(ABORT, 'canary-message'); END;
            """)
        do {
            _ = try await store.insert(record)
            Issue.record("the trigger let the record through")
        } catch {
            expect("\(error)\(String(reflecting: error))".contains("canary"), equals: false)
        }
        expect(directory.log.texts.count, equals: 1)
        for line in directory.log.texts {
            for trace in [
                "canary", "INSERT", "63616e617279", "\(Int64(bitPattern: record.account))", "\(record.key.id)",
            ] {
                expect(!line.contains(trace))
            }
        }
    }
}
