import CloakroomCore
import Foundation
import GRDB
import TestSupport

@testable import CloakroomSessions

/// A temporary folder with the database of a session store.
final class SQLiteTestDirectory: Sendable {
    let log = RecordedLog()
    private let directory: TemporaryDirectory
    let now: @Sendable () -> Timestamp

    init(now: Timestamp = SampleRecord.start) throws {
        directory = try TemporaryDirectory()
        self.now = { now }
    }

    var path: String { directory.path }
    var file: String { path + "/sessions.sqlite" }

    /// Creates a store that acts as another process: it shares only the file with others.
    /// - Parameter leaseTime: By default leases expire by the time that callers pass.
    func store(
        _ file: String? = nil, leaseTime: @escaping @Sendable (Timestamp) -> Timestamp = { $0 }
    ) -> SQLiteRecordStore {
        SQLiteRecordStore(path: file ?? self.file, logger: log.logger, now: now, leaseTime: leaseTime)
    }

    /// Writes to the file without the stores.
    func execute(_ sql: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let queue = try DatabaseQueue(path: file, configuration: configuration)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// Overwrites the first page of a table, or of an index, in the file.
    func damage(_ table: String) throws {
        let queue = try DatabaseQueue(path: file)
        let sql = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        let page = try queue.read { try Int64.fetchOne($0, sql: sql, arguments: [table]) } ?? 1
        try queue.close()
        try execute("PRAGMA wal_checkpoint(TRUNCATE)")
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: file))
        try handle.seek(toOffset: UInt64(page - 1) * 4_096)
        try handle.write(contentsOf: Data(repeating: 0xa5, count: 4_096))
        try handle.close()
        // A commit, after which no connection uses the pages that it has read.
        try execute("INSERT INTO throttle VALUES (9, 9, 0, 0, 0, \(Int64.max))")
    }

    /// Moves the file away with its two accompanying files.
    func moveAway() throws {
        for suffix in ["", "-wal", "-shm"] {
            try FileManager.default.moveItem(atPath: file + suffix, toPath: path + "/away.sqlite" + suffix)
        }
    }

    func permissions(_ file: String) throws -> Int? {
        (try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? NSNumber)?.intValue
    }
}

/// Sample records, distinguished by a number.
enum SampleRecord {
    static let start = Timestamp(seconds: 1_700_000_000)
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
