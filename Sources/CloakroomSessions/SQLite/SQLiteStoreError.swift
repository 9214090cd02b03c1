import GRDB

/// Why the file with the sessions cannot be opened or used: what, where, and what to do about it.
///
/// Says nothing of what is in the file: SQLite's own messages may quote statements and values.
struct SQLiteStoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// What is the matter.
    enum Kind: Sendable, Hashable {
        /// No file is named.
        case pathMissing
        /// The folder that it is to lie in is not there.
        case directoryMissing(String)
        /// There is a folder, a device or the like in its place.
        case notAFile
        /// It cannot be made, read or written; the reason in the system's words.
        case accessDenied(String)
        /// It holds something else than a SQLite database.
        case notADatabase
        /// It is the SQLite database of something else.
        case foreignDatabase
        /// A later release wrote it.
        case newerVersion
        /// It was moved or replaced while it was in use.
        case moved
        /// SQLite says so: an extended result code, and the same with its constant text.
        case sqlite(code: Int, text: String)
    }

    var problem: Kind
    var path: String

    init(_ problem: Kind, path: String) {
        self.problem = problem
        self.path = path
    }

    /// Takes the code of an error and drops its message.
    init(_ error: any Error, path: String) {
        self.path = path
        switch error {
        case let error as SQLiteStoreError:
            problem = error.problem
        case let error as DatabaseError where error.resultCode == .SQLITE_NOTADB:
            problem = .notADatabase
        case let error as DatabaseError:
            let code = error.extendedResultCode
            problem = .sqlite(code: Int(code.rawValue), text: code.description)
        default:
            problem = .sqlite(code: 1, text: "1 (\(type(of: error)))")
        }
    }

    var description: String {
        switch problem {
        case .pathMissing:
            "no file is named for the sessions: set the path of the SQLite file"
        case .directoryMissing(let directory):
            "sessions cannot be kept in \(path): there is no folder \(directory); make it, or name another file"
        case .notAFile:
            "sessions cannot be kept in \(path): that is not a file; name one in this folder, or another place"
        case .accessDenied(let reason):
            "sessions cannot be kept in \(path): \(reason); the file and its folder have to be writable for this user"
        case .notADatabase:
            "sessions cannot be kept in \(path): it is not a SQLite database, or it is damaged; name another file, or "
                + "move this one away: a new one is made then, and everybody has to sign in again"
        case .foreignDatabase:
            "sessions cannot be kept in \(path): it is the database of something else; name another file"
        case .newerVersion:
            "sessions cannot be kept in \(path): a later release of Cloakroom has written it; run that release, or name "
                + "another file"
        case .moved:
            "sessions were kept in \(path), but the file was moved, removed or replaced; it is opened anew"
        case .sqlite(_, let text):
            "sessions cannot be kept in \(path): SQLite error \(text); see whether there is room on the disk and "
                + "whether the file is sound (sqlite3 \(path) 'PRAGMA integrity_check')"
        }
    }
}

extension SQLiteStoreError {
    /// Whether somebody else holds a lock.
    var isBusy: Bool {
        guard case .sqlite(let code, _) = problem else { return false }
        let primary = ResultCode(rawValue: CInt(truncatingIfNeeded: code & 0xff))
        return primary == .SQLITE_BUSY || primary == .SQLITE_LOCKED
    }

    /// Whether the connections are of no more use, as opposed to one operation that failed.
    var needsReopening: Bool {
        switch problem {
        case .sqlite(let code, _):
            // The low byte is the primary code. A full disk, a locked or a damaged file stays what it is when opened anew.
            switch ResultCode(rawValue: CInt(truncatingIfNeeded: code & 0xff)) {
            case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_MISUSE, .SQLITE_PROTOCOL: true
            default: false
            }
        case .pathMissing, .directoryMissing, .notAFile, .accessDenied, .notADatabase, .foreignDatabase, .newerVersion,
            .moved:
            true
        }
    }
}
