import CSQLite
import CloakroomCore
import Glibc

/// The opened file: one connection for writing, one for reading, and one that polls for changes of other processes.
///
/// The connections are closed when the file is no longer referenced.
final class SQLiteFile: Sendable {
    /// How long, in milliseconds, SQLite itself retries if another process holds the lock.
    private static let busyTimeout: Int32 = 2_000
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
            guard let identity = Identity(path: path) else { throw SQLiteStoreError(.notAFile, path: path) }
            self.identity = identity
            let writing = try Self.connect(path)
            try Self.claim(writing, path: path)
            // The file is known to be the gateway's, so its permissions may be changed. SQLite creates the two
            // accompanying files with the same permissions.
            try Self.restrict(path)
            // A persistent property of the file: readers and a writer do not block each other.
            let mode = try writing.row("PRAGMA journal_mode = WAL")?.text(0)
            guard mode == "wal" else { throw SQLiteError(code: SQLITE_BUSY) }
            writer = SQLiteWriter(DatabaseQueue(writing))
            let reading = try Self.connect(path)
            try reading.execute("PRAGMA query_only = ON")
            self.reading = DatabaseQueue(reading)
            watching = DatabaseQueue(try Self.connect(path))
            for suffix in ["-wal", "-shm"] { try Self.restrict(path + suffix) }
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
        /// - Returns: `nil` if there is no regular file.
        init?(path: String) {
            var status = stat()
            guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
            (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino))
        }
    }

    private static func connect(_ path: String) throws -> sending Database {
        let db = try Database(path: path, busyTimeout: busyTimeout)
        // Views and triggers of a manipulated file must not call the application's functions, and damaged pages must be
        // detected before use. The log is checkpointed each second while no request waits for it; a commit checkpoints
        // only if it grows faster.
        try db.execute(
            """
            PRAGMA trusted_schema = OFF;
            PRAGMA cell_size_check = ON;
            PRAGMA synchronous = FULL;
            PRAGMA temp_store = MEMORY;
            PRAGMA journal_size_limit = \(logSizeLimit);
            PRAGMA wal_autocheckpoint = \(logSizeLimit / 4_096);
            """)
        return db
    }

    /// Creates the file if there is none, accessible only to its owner from the start, regardless of the umask.
    private static func prepareFile(_ path: String) throws(SQLiteStoreError) {
        guard !path.isEmpty else { throw SQLiteStoreError(.pathMissing, path: path) }
        // Only a new file is opened here: closing a descriptor of a file that SQLite has open in this process would
        // release SQLite's locks on it (fcntl(2)).
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode_t(ownerOnly))
        if descriptor >= 0 {
            close(descriptor)
        } else if errno == ENOENT || errno == ENOTDIR {
            let directory = path.lastIndex(of: "/").map { path[..<$0] } ?? "."
            throw SQLiteStoreError(.directoryMissing(String(directory)), path: path)
        } else if errno != EEXIST || access(path, R_OK | W_OK) != 0 {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        }
    }

    /// Marks a new file as a Cloakroom database, and migrates the tables. Rejects, without changes, a file of another
    /// application or a later release.
    private static func claim(_ db: Database, path: String) throws {
        try db.atomically { db in
            let mark = try db.row("PRAGMA application_id")?.integer(0)
            if try mark == 0 && db.row("SELECT count(*) FROM sqlite_master")?.integer(0) == 0 {
                try db.execute("PRAGMA application_id = \(SQLiteSchema.applicationID)")
            } else if mark != SQLiteSchema.applicationID {
                throw SQLiteStoreError(.foreignDatabase, path: path)
            }
            guard try SQLiteSchema.migrate(db) else { throw SQLiteStoreError(.newerVersion, path: path) }
        }
    }

    private static func restrict(_ path: String) throws(SQLiteStoreError) {
        guard chmod(path, mode_t(ownerOnly)) == 0 || errno == ENOENT else {
            throw SQLiteStoreError(.accessDenied(String(cString: strerror(errno))), path: path)
        }
    }
}

/// What a commit waits for, a value of `PRAGMA synchronous`. Killing the process loses nothing in either case, because
/// the kernel has the data.
enum SQLiteDurability: String, Sendable {
    /// The disk: for everything that is acknowledged to a client, so that it survives a power failure.
    case full = "FULL"
    /// Nothing: for leases, uses and the throttle, which are of little value after a power failure. Later commits with
    /// `full` also sync this data.
    case relaxed = "NORMAL"
}

/// The monotonic clock of the machine. All processes read the same time from it, and it cannot be set.
///
/// Leases end by this clock. If the wall clock is set back, a running process continues with its earlier time
/// (``SessionClock``), but a newly started process uses the new time. The two would not agree on when a lease ends.
enum MachineClock {
    /// Milliseconds since an unspecified moment at system start (CLOCK_MONOTONIC of clock_gettime(2)).
    static var now: MonotonicTime {
        var time = timespec()
        guard clock_gettime(CLOCK_MONOTONIC, &time) == 0 else { return MonotonicTime(milliseconds: 0) }
        return MonotonicTime(milliseconds: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }
}

extension Database.SessionRow {
    /// Whether the lease excludes others.
    /// - Parameters:
    ///   - duration: The duration of leases; the maximum if it is unknown.
    ///   - time: The time by which leases end.
    func isLeased(for duration: Duration = .seconds(3_600), _ time: MonotonicTime) -> Bool {
        RefreshLease.isHeld(until: leaseEnd, for: duration, now: time)
    }
}
