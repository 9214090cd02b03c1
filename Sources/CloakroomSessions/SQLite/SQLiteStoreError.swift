import CSQLite

/// Why the session database cannot be opened or used: the cause, the path, and the remedy.
///
/// Contains nothing of the file's content: SQLite's own messages may quote statements and values.
struct SQLiteStoreError: Error, Sendable, Hashable, CustomStringConvertible {
    enum Kind: Sendable, Hashable {
        case pathMissing
        /// The directory of the file does not exist.
        case directoryMissing(String)
        /// The path leads to a directory, a device or the like.
        case notAFile
        /// The file cannot be created, read or written, with the system's error message.
        case accessDenied(String)
        /// The file is not a SQLite database.
        case notADatabase
        /// The file is a SQLite database of another application.
        case foreignDatabase
        /// The file was written by a later release.
        case newerVersion
        /// The file was moved or replaced while it was open.
        case moved
        case sqlite(SQLiteError)
    }

    var problem: Kind
    var path: String

    init(_ problem: Kind, path: String) {
        self.problem = problem
        self.path = path
    }

    init(_ error: any Error, path: String) {
        self.path = path
        switch error {
        case let error as SQLiteStoreError: problem = error.problem
        case let error as SQLiteError: problem = error.primaryCode == SQLITE_NOTADB ? .notADatabase : .sqlite(error)
        default: problem = .sqlite(SQLiteError(code: SQLITE_ERROR))
        }
    }

    var description: String {
        switch problem {
        case .pathMissing:
            "no SQLite file configured for the sessions: set session.sqlite.path"
        case .directoryMissing(let directory):
            "cannot open session database \(path): no directory \(directory); create it, or configure another path"
        case .notAFile:
            "cannot open session database \(path): not a regular file; configure the path of a file"
        case .accessDenied(let reason):
            "cannot open session database \(path): \(reason); file and directory must be writable for this user"
        case .notADatabase:
            "cannot open session database \(path): not a SQLite database, or damaged; configure another path, or "
                + Self.replacing
        case .foreignDatabase:
            "cannot open session database \(path): it belongs to another application; configure another path"
        case .newerVersion:
            "cannot open session database \(path): a later release of Cloakroom has written it; run that release, or "
                + "configure another path"
        case .moved:
            "session database \(path) was moved, removed or replaced while it was open; it is reopened"
        case .sqlite(let error) where isDamage:
            "session database \(path) is damaged: SQLite error \(error); \(Self.replacing)"
        case .sqlite(let error):
            "session database \(path) failed: SQLite error \(error); check the free disk space and "
                + "the integrity of the file (sqlite3 \(path) 'PRAGMA integrity_check')"
        }
    }

    private static let replacing =
        "move the file away with its -wal and -shm files: a new one is created then, and all users have to sign in again"
}

extension SQLiteStoreError {
    /// Whether another connection holds a lock.
    var isBusy: Bool { hasCode(SQLITE_BUSY, SQLITE_LOCKED) }

    /// Whether the contents of the file are invalid, at least in part.
    var isDamage: Bool { problem == .notADatabase || hasCode(SQLITE_CORRUPT) }

    /// Whether the connections are unusable, as opposed to one failed operation.
    var needsReopening: Bool {
        guard case .sqlite = problem else { return true }
        // Reopening does not change a full disk or a locked file. A damaged one may have been restored in place.
        return hasCode(SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_READONLY, SQLITE_MISUSE, SQLITE_PROTOCOL, SQLITE_CORRUPT)
    }

    private func hasCode(_ codes: Int32...) -> Bool {
        if case .sqlite(let error) = problem { codes.contains(error.primaryCode) } else { false }
    }
}
