import CSQLite
import Dispatch
import Synchronization

/// A result code of SQLite other than success. SQLite's messages are not kept: they may quote statements and values.
struct SQLiteError: Error, Hashable, CustomStringConvertible {
    /// The extended result code.
    let code: Int32

    /// The low byte of the code.
    var primaryCode: Int32 { code & 0xff }

    /// The code with its constant text, such as `10 (disk I/O error)`.
    var description: String { "\(code) (\(String(cString: sqlite3_errstr(code))))" }

    fileprivate static func check(_ code: Int32) throws(SQLiteError) {
        guard code == SQLITE_OK else { throw SQLiteError(code: code) }
    }
}

/// One connection to a SQLite file, with its prepared statements. Only one thread at a time may use it: see
/// ``DatabaseQueue``. All pointers of SQLite stay in this class and in ``Row``, and end with it.
final class Database {
    private let connection: OpaquePointer
    /// By their text. The texts are few, because values are arguments.
    private var statements: [String: OpaquePointer] = [:]

    /// Opens a file, and creates it if it does not exist.
    /// - Parameter busyTimeout: How long SQLite itself retries, in milliseconds, if another connection holds the lock.
    init(path: String, busyTimeout: Int32 = 0) throws(SQLiteError) {
        var opened: OpaquePointer?
        let code = sqlite3_open_v2(
            path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK, let opened else {
            sqlite3_close(opened)
            throw SQLiteError(code: code)
        }
        connection = opened
        sqlite3_extended_result_codes(connection, 1)
        sqlite3_busy_timeout(connection, busyTimeout)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close(connection)
    }

    /// The number of rows that the last statement has changed, without those changed by triggers.
    var changesCount: Int { Int(sqlite3_changes(connection)) }
    /// The number of rows that all statements have changed.
    var totalChangesCount: Int { Int(sqlite3_total_changes(connection)) }
    var isInsideTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

    /// Executes one or more statements without arguments. They are not kept: some pragmas take effect only when they
    /// are prepared.
    func execute(_ sql: String) throws(SQLiteError) {
        try SQLiteError.check(sqlite3_exec(connection, sql, nil, nil, nil))
    }

    /// - Returns: The first row.
    func row(_ sql: String, _ arguments: [(any SQLiteArgument)?] = []) throws(SQLiteError) -> Row? {
        try run(sql, arguments).first
    }

    /// Executes a statement to its end, and returns all rows. It is prepared once.
    @discardableResult
    func run(_ sql: String, _ arguments: [(any SQLiteArgument)?] = []) throws(SQLiteError) -> [Row] {
        let statement = try statement(sql)
        defer {
            sqlite3_reset(statement)
            sqlite3_clear_bindings(statement)
        }
        assert(arguments.count == sqlite3_bind_parameter_count(statement))
        for (argument, index) in zip(arguments, Int32(1)...) {
            // A parameter without a value is NULL.
            if let argument { try SQLiteError.check(argument.bind(to: statement, at: index)) }
        }
        var rows: [Row] = []
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: rows.append(Row(statement))
            case SQLITE_DONE: return rows
            case let code: throw SQLiteError(code: code)
            }
        }
    }

    private func statement(_ sql: String) throws(SQLiteError) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var prepared: OpaquePointer?
        try SQLiteError.check(
            sqlite3_prepare_v3(connection, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil))
        // An empty text has none.
        guard let prepared else { throw SQLiteError(code: SQLITE_MISUSE) }
        statements[sql] = prepared
        return prepared
    }

    /// Runs an atomic transaction that takes the write lock first, so values read in it stay valid until its end.
    /// - Parameter isPart: Runs, within a transaction, a part of it that can be rolled back alone.
    func atomically<Value>(isPart: Bool = false, _ body: (Database) throws -> Value) throws -> Value {
        try execute(isPart ? "SAVEPOINT part" : "BEGIN IMMEDIATE")
        do {
            let value = try body(self)
            try execute(isPart ? "RELEASE part" : "COMMIT")
            return value
        } catch {
            // Some failures have rolled back the whole transaction already. If the part cannot be rolled back alone, all
            // is: nothing of it may be committed.
            if isInsideTransaction {
                do { try execute(isPart ? "ROLLBACK TO part; RELEASE part" : "ROLLBACK") } catch {
                    try? execute("ROLLBACK")
                }
            }
            throw error
        }
    }
}

/// A connection, and the serial queue that its operations run on, because they wait for the disk or a lock. The
/// connection is closed when the queue is no longer referenced.
final class DatabaseQueue: Sendable {
    private let queue = DispatchQueue(label: "cloakroom.sessions")
    private let database: Mutex<Database>

    init(_ database: sending Database) {
        self.database = Mutex(database)
    }

    /// Runs an operation after those before it.
    func async(_ body: @escaping @Sendable (Database) -> Void) {
        queue.async {
            self.database.withLock { db in
                // A rollback has failed, for want of memory: a transaction that stayed open would block all others.
                if db.isInsideTransaction { try? db.execute("ROLLBACK") }
                body(db)
            }
        }
    }
}
