import CloakroomCore
import Foundation
import TestSupport

@testable import CloakroomSessions

/// A temporary folder with the database of a session store.
final class SQLiteTestDirectory: Sendable {
    let log = RecordedLog()
    private let directory: TemporaryDirectory
    let now: @Sendable () -> SessionTime

    init(now: SessionTime = SampleRecord.start) throws {
        directory = try TemporaryDirectory()
        self.now = { now }
    }

    var path: String { directory.path }
    var file: String { path + "/sessions.sqlite" }

    /// Creates a store that acts as another process: it shares only the file with others.
    /// - Parameters:
    ///   - leaseTime: By default leases expire by the time that callers pass.
    ///   - interval: How long an intermittent failure lasts after it was seen.
    func store(
        _ file: String? = nil,
        leaseTime: @escaping @Sendable (SessionTime) -> MonotonicTime = {
            MonotonicTime(milliseconds: $0.milliseconds)
        },
        interval: Duration = .seconds(60)
    ) -> SQLiteRecordStore {
        SQLiteRecordStore(
            path: file ?? self.file, logger: log.logger, now: now, leaseTime: leaseTime, interval: interval)
    }

    /// Writes to the file without the stores.
    func execute(_ sql: String) throws {
        try Database(path: file, busyTimeout: 10_000).execute(sql)
    }

    /// Overwrites the first page of a table, or of an index, in the file.
    func damage(_ table: String) throws {
        _ = try overwrite(try rootPage(of: table))
    }

    func rootPage(of table: String) throws -> Int {
        try value("SELECT rootpage FROM sqlite_master WHERE name = '\(table)'")
    }

    /// The number of the page with some bytes.
    func page(with bytes: Data) throws -> Int {
        try execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let offset = try Data(contentsOf: URL(fileURLWithPath: file)).range(of: bytes)?.lowerBound ?? 0
        return offset / 4_096 + 1
    }

    /// Overwrites a page in the file with invalid contents.
    /// - Returns: The contents before.
    func overwrite(_ page: Int) throws -> Data {
        try execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let before = try replace(page, with: Data(repeating: 0xa5, count: 4_096))
        // A commit, after which no connection uses the pages that it has read.
        try execute("INSERT OR REPLACE INTO throttle VALUES (9, 9, 0, 0, 0, \(Int64.max))")
        return before
    }

    /// Writes a page into the file, without a commit.
    /// - Returns: The contents before.
    @discardableResult
    func replace(_ page: Int, with bytes: Data) throws -> Data {
        let handle = try FileHandle(forUpdating: URL(fileURLWithPath: file))
        try handle.seek(toOffset: UInt64(page - 1) * 4_096)
        let before = try handle.read(upToCount: 4_096) ?? Data()
        try handle.seek(toOffset: UInt64(page - 1) * 4_096)
        try handle.write(contentsOf: bytes)
        try handle.close()
        return before
    }

    /// A number that grows by two with each test of the store for damage.
    func tallyStep() throws -> Int { try value("SELECT step FROM tally") }

    func value(_ sql: String) throws -> Int {
        Int(try Database(path: file).row(sql)?.integer(0) ?? 0)
    }

    /// Moves the file away with its two accompanying files, unless the store has noticed and removed those first.
    func moveAway() throws {
        try FileManager.default.moveItem(atPath: file, toPath: path + "/away.sqlite")
        for suffix in ["-wal", "-shm"] {
            try? FileManager.default.moveItem(atPath: file + suffix, toPath: path + "/away.sqlite" + suffix)
        }
    }

    func permissions(_ file: String) throws -> Int? {
        (try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber)?.intValue
    }
}

extension DatabaseQueue {
    /// Executes statements, and waits for their end.
    func execute(_ sql: String) async throws {
        try await withCheckedThrowingContinuation { continuation in
            self.async { db in continuation.resume(with: Result { try db.execute(sql) }) }
        }
    }
}

/// Sample records, distinguished by a number.
enum SampleRecord {
    static let start = SessionTime(seconds: 1_700_000_000)
    static let end = start + .seconds(3_600)

    static func record(_ number: UInt64, account: UInt64 = 7, version: UInt64 = 1, size: Int = 64) -> SessionRecord {
        SessionRecord(
            key: SessionKey(number &* 0x9e37_79b9_7f4a_7c15, number, .max, 0), account: account, createdAt: start,
            expiresAt: end, lastUsedAt: start, version: version,
            contents: Array(repeating: UInt8(truncatingIfNeeded: number), count: size), client: [1, 2, 3])
    }
}

extension SQLiteRecordStore {
    func insert(_ record: SessionRecord) async throws -> Bool {
        try await insert(record, keepUntil: SampleRecord.end, now: SampleRecord.start)
    }

    func read(_ record: SessionRecord) async throws -> RecordLookup {
        try await read(record.key.id, now: SampleRecord.start)
    }
}
