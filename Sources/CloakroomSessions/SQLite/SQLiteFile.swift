import CloakroomCore
import Foundation
import GRDB
import Glibc

/// The opened file: one connection for writing, one for reading, and one that polls for changes of other processes.
///
/// Everything that waits for the disk or a lock runs on GRDB's own threads. The connections are closed when the file is
/// no longer referenced. These are three queues and no `DatabasePool`, whose reads take more than twice as long: a pool
/// involves two threads and a transaction in each read, and no operation here needs either.
final class SQLiteFile: Sendable {
    /// How long, in seconds, SQLite itself retries if another process holds the lock.
    private static let busyTimeout: Double = 2
    /// The maximum size in bytes that the write-ahead log keeps after a reset.
    private static let logSizeLimit = 16 << 20
    private static let ownerOnly = 0o600

    let writer: SQLiteWriter
    let reading: DatabaseQueue
    /// On a connection of its own, `PRAGMA data_version` reports all commits by others.
    let watching: DatabaseQueue
    let identity: Identity
    private let path: String

    /// Opens the file, and creates it if it does not exist. Blocks on the disk: not for the cooperative threads.
    init(path: String) throws(SQLiteStoreError) {
        self.path = path
        do {
            try Self.prepareFile(path)
            // Before it is opened: if it is replaced in between, the two differ, and it is reopened.
            guard let identity = Identity(path: path) else { throw SQLiteStoreError(.moved, path: path) }
            self.identity = identity
            let configuration = Self.configuration
            let writing = try DatabaseQueue(path: path, configuration: configuration)
            try writing.writeWithoutTransaction { try Self.claimDatabase($0, path: path) }
            // The file is known to be the gateway's, so its permissions may be changed. SQLite creates the two
            // accompanying files with the same permissions.
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
        } catch {
            throw SQLiteStoreError(error, path: path)
        }
    }

    /// Whether the path still leads to the open file. Data written to an unlinked file would be lost.
    var isSameFile: Bool { Identity(path: path) == identity }

    /// The file that a path leads to.
    struct Identity: Sendable, Equatable {
        private let device: UInt64
        private let inode: UInt64

        /// One system call, which follows symbolic links as SQLite does.
        /// - Returns: `nil` if there is no file.
        init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0 else { return nil }
            (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
        }
    }

    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.label = "cloakroom.sessions"
        configuration.foreignKeysEnabled = false
        configuration.busyMode = .timeout(busyTimeout)
        configuration.prepareDatabase { db in
            // Views and triggers of a manipulated file must not call the application's functions, and damaged pages
            // must be detected before use.
            try db.execute(
                sql: """
                    PRAGMA trusted_schema = OFF;
                    PRAGMA cell_size_check = ON;
                    PRAGMA synchronous = FULL;
                    PRAGMA temp_store = MEMORY;
                    """)
            // Pragmas that return a row.
            _ = try Row.fetchOne(db, sql: "PRAGMA journal_size_limit = \(logSizeLimit)")
            // The log is checkpointed each second while no request waits for it; a commit checkpoints only if it grows
            // faster.
            _ = try Row.fetchOne(db, sql: "PRAGMA wal_autocheckpoint = \(logSizeLimit / 4_096)")
        }
        return configuration
    }

    /// Creates the file if there is none, accessible only to its owner from the start, regardless of the umask.
    private static func prepareFile(_ path: String) throws(SQLiteStoreError) {
        guard !path.isEmpty else { throw SQLiteStoreError(.pathMissing, path: path) }
        var isDirectory: ObjCBool = false
        let directory = path.contains("/") ? (path as NSString).deletingLastPathComponent : "."
        guard FileManager.default.fileExists(atPath: directory.isEmpty ? "/" : directory, isDirectory: &isDirectory),
            isDirectory.boolValue
        else { throw SQLiteStoreError(.directoryMissing(directory), path: path) }
        // Only a new file is opened here: closing a descriptor of a file that SQLite has open in this process would
        // release SQLite's locks on it (fcntl(2)).
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

    /// Marks a new file as a Cloakroom database. Rejects, without changes, a file of another application or a later
    /// release.
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

    /// Switches to write-ahead logging, a persistent property of the file: readers and a writer do not block each
    /// other.
    private static func beginLog(_ db: Database) throws {
        let mode = try Row.fetchOne(db, sql: "PRAGMA journal_mode = WAL")?.text(0)
        guard mode == "wal" else { throw DatabaseError(resultCode: .SQLITE_BUSY) }
    }

    private static func migrate(_ writing: DatabaseQueue) throws {
        let migrator = SQLiteSchema.migrator
        let end = ContinuousClock.now + .seconds(busyTimeout)
        while true {
            do {
                return try migrator.migrate(writing)
            } catch {
                // Another process may have applied a migration between the check and the lock, and be applying others.
                if try writing.read({ try migrator.hasCompletedMigrations($0) }) { return }
                guard (error as? DatabaseError)?.resultCode.primaryResultCode == .SQLITE_ERROR, .now < end else {
                    throw error
                }
                usleep(10_000)
            }
        }
    }

    private static func restrict(_ path: String) throws(SQLiteStoreError) {
        guard chmod(path, mode_t(ownerOnly)) == 0 || errno == ENOENT else {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        }
    }

    private static func resolved(_ path: String) -> String {
        (path as NSString).resolvingSymlinksInPath
    }
}

/// What a commit waits for. Killing the process loses nothing in either case, because the kernel has the data.
enum SQLiteDurability: Sendable {
    /// The disk: for everything that is acknowledged to a client, so that it survives a power failure.
    case full
    /// Nothing: for leases, uses and the throttle, which are of little value after a power failure. Later commits with
    /// `full` also sync this data.
    case relaxed

    func apply(to db: Database) throws {
        try db.execute(sql: self == .full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL")
    }
}

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// The monotonic clock of the machine. All processes read the same time from it, and it cannot be set.
///
/// Leases end by this clock. If the wall clock is set back, a running process continues with its earlier time
/// (``SessionClock``), but a newly started process uses the new time. The two would not agree on when a lease ends.
enum MachineClock {
    /// Milliseconds since an unspecified moment at system start (CLOCK_MONOTONIC of clock_gettime(2)).
    static var now: Timestamp {
        var time = timespec()
        guard clock_gettime(CLOCK_MONOTONIC, &time) == 0 else { return Timestamp(milliseconds: 0) }
        return Timestamp(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}

extension Database.SessionRow {
    /// Whether the lease excludes others.
    /// - Parameters:
    ///   - duration: The duration of leases; the maximum if it is unknown.
    ///   - time: The time by which leases end.
    func isLeased(for duration: Duration = .seconds(3_600), _ time: Timestamp) -> Bool {
        RefreshLease.isHeld(until: leaseEnd, for: duration, now: time)
    }
}
