import Foundation
import GRDB
import Glibc

/// The opened file: a connection that writes, one that reads, and one that watches what other processes do.
///
/// Everything that waits for the disk or a lock does so on GRDB's own threads. The connections are closed when nobody
/// holds the file any more. These are three queues and no `DatabasePool`, whose reads take more than twice as long: it
/// hands each to two threads and wraps it in a transaction, and no operation here needs the one or the other.
final class SQLiteFile: Sendable {
    /// How long SQLite tries again by itself where another process holds the lock.
    private static let busyTimeout: Double = 2
    /// What is left of the write-ahead log when it begins anew.
    private static let logSizeLimit = 16 << 20
    private static let ownerOnly = 0o600

    let writer: SQLiteWriter
    let reading: DatabaseQueue
    /// On a connection of its own, `PRAGMA data_version` tells of all commits by others.
    let watching: DatabaseQueue
    private let path: String
    private let identity: UInt64?

    /// Opens the file, and makes it if it is not there. Waits for the disk: not for the cooperative threads.
    init(path: String) throws(SQLiteStoreError) {
        self.path = path
        do {
            try Self.prepareFile(path)
            let configuration = Self.configuration
            let writing = try DatabaseQueue(path: path, configuration: configuration)
            try writing.writeWithoutTransaction { try Self.claimDatabase($0, path: path) }
            // Ours for certain, so its rights may be changed. The two files beside it get those of this one when SQLite
            // makes them.
            try Self.restrict(path)
            try writing.writeWithoutTransaction { try Self.beginLog($0) }
            try Self.migrate(writing)
            writer = SQLiteWriter(writing)
            reading = try DatabaseQueue(path: path, configuration: configuration)
            try reading.writeWithoutTransaction { try $0.execute(sql: "PRAGMA query_only = ON") }
            watching = try DatabaseQueue(path: path, configuration: configuration)
            for suffix in ["-wal", "-shm"] where FileManager.default.fileExists(atPath: path + suffix) {
                try Self.restrict(path + suffix)
            }
            identity = Self.identity(of: path)
        } catch {
            throw SQLiteStoreError(error, path: path)
        }
    }

    /// Whether the path still leads to the file that is open. Without a file under its name, what is written is lost.
    var isSameFile: Bool { Self.identity(of: path) == identity }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "cloakroom.sessions"
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            // A file that somebody tampered with must not run functions of ours by its views and triggers, and a damaged
            // page is to be found before it is used.
            try db.execute(
                sql: """
                    PRAGMA trusted_schema = OFF;
                    PRAGMA cell_size_check = ON;
                    PRAGMA synchronous = FULL;
                    PRAGMA temp_store = MEMORY;
                    """)
            // Pragmas that answer with a row.
            _ = try Row.fetchOne(db, sql: "PRAGMA journal_size_limit = \(logSizeLimit)")
            // The log is written back each second where nobody waits for it; by a commit only if it grows faster.
            _ = try Row.fetchOne(db, sql: "PRAGMA wal_autocheckpoint = \(logSizeLimit / 4_096)")
        }
        return configuration
    }

    /// Makes the file where there is none, for its owner alone from the first moment on, whatever the umask is.
    private static func prepareFile(_ path: String) throws(SQLiteStoreError) {
        guard !path.isEmpty else { throw SQLiteStoreError(.pathMissing, path: path) }
        var isDirectory: ObjCBool = false
        let directory = path.contains("/") ? (path as NSString).deletingLastPathComponent : "."
        guard FileManager.default.fileExists(atPath: directory.isEmpty ? "/" : directory, isDirectory: &isDirectory),
            isDirectory.boolValue
        else { throw SQLiteStoreError(.directoryMissing(directory), path: path) }
        // Only a new file is opened here: to close a descriptor of one that SQLite has open in this process would let go of
        // SQLite's locks on it (fcntl(2)).
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode_t(ownerOnly))
        if descriptor >= 0 {
            close(descriptor)
        } else if errno != EEXIST {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        } else if access(path, R_OK | W_OK) != 0 {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        }
        let type = try? FileManager.default.attributesOfItem(atPath: resolved(path))[.type] as? FileAttributeType
        guard type == .typeRegular else { throw SQLiteStoreError(.notAFile, path: path) }
    }

    /// Marks a new file as ours. Refuses one that belongs to something else or to a later release, untouched.
    private static func claimDatabase(_ db: Database, path: String) throws {
        try db.inTransaction(.immediate) {
            let mark = try Row.fetchOne(db, sql: "PRAGMA application_id")?.integer(0) ?? 0
            let tables = try Row.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master")?.integer(0) ?? 0
            if mark == 0, tables == 0 {
                try db.execute(sql: "PRAGMA application_id = \(SQLiteSchema.applicationID)")
                return .commit
            }
            guard mark == SQLiteSchema.applicationID else { throw SQLiteStoreError(.foreignDatabase, path: path) }
            guard try !SQLiteSchema.migrator.hasBeenSuperseded(db) else {
                throw SQLiteStoreError(.newerVersion, path: path)
            }
            return .commit
        }
    }

    /// Switches to the write-ahead log, which stays with the file: readers and a writer do not wait for each other.
    private static func beginLog(_ db: Database) throws {
        let mode = try Row.fetchOne(db, sql: "PRAGMA journal_mode = WAL")?.text(0)
        guard mode == "wal" else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
    }

    private static func migrate(_ writing: DatabaseQueue) throws {
        let migrator = SQLiteSchema.migrator
        do {
            try migrator.migrate(writing)
        } catch {
            // Another process may have been faster, between our look and our lock.
            guard try writing.read({ try migrator.hasCompletedMigrations($0) }) else { throw error }
        }
    }

    private static func restrict(_ path: String) throws(SQLiteStoreError) {
        guard chmod(path, mode_t(ownerOnly)) == 0 || errno == ENOENT else {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        }
    }

    private static func identity(of path: String) -> UInt64? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: resolved(path))
        return (attributes?[.systemFileNumber] as? NSNumber)?.uint64Value
    }

    private static func resolved(_ path: String) -> String {
        (path as NSString).resolvingSymlinksInPath
    }
}

/// What a commit waits for. A process that is killed loses nothing either way: what was written is with the kernel.
enum SQLiteDurability: Sendable {
    /// The disk: for what was acknowledged to a client, also where the machine loses its power.
    case full
    /// Nothing: for leases, uses and the throttle, which mean little after the machine went down. Later commits that wait
    /// take these to the disk with them.
    case relaxed

    func apply(to db: Database) throws {
        try db.execute(sql: self == .full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")
    }
}
