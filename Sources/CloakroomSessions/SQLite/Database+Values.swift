import CloakroomCore
import Foundation
import GRDB

/// Accessors that return `nil` if a column holds another type than expected. Other programs may have written to the
/// file, and GRDB's own subscripts would then terminate the process.
extension Row {
    func integer(_ column: Int) -> Int64? {
        guard column < count, case .int64(let value) = (self[column] as DatabaseValue).storage else { return nil }
        return value
    }

    func unsigned(_ column: Int) -> UInt64? {
        integer(column).map { UInt64(bitPattern: $0) }
    }

    func time(_ column: Int) -> Timestamp? {
        integer(column).map { Timestamp(milliseconds: $0) }
    }

    func bytes(_ column: Int) -> [UInt8]? {
        guard column < count, case .blob(let data) = (self[column] as DatabaseValue).storage else { return nil }
        return [UInt8](data)
    }

    func text(_ column: Int) -> String? {
        guard column < count, case .string(let text) = (self[column] as DatabaseValue).storage else { return nil }
        return text
    }
}

extension Database {
    /// Executes a cached prepared statement.
    func run(_ sql: String, _ arguments: StatementArguments) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }

    func row(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> Row? {
        try Row.fetchOne(try cachedStatement(sql: sql), arguments: arguments)
    }

    func rows(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> [Row] {
        try Row.fetchAll(try cachedStatement(sql: sql), arguments: arguments)
    }

    /// Writes and deletes the rows of a session, its end and a sign-in, at a place by chance: succeeds only if there is
    /// room, no lock, and no damage at this place.
    func testWrite() throws {
        let place = Int64.random(in: .min ... .max)
        try forgetPages()
        // Small, so that a page next to a damaged one need not be split.
        try run(
            """
            INSERT INTO session (id, key, account, created_at, expires_at, last_used_at, keep_until, version, client,
                contents) VALUES (?1, x'', ?1, 0, 0, 0, ?1, 0, x'', x'')
            """, [place])
        _ = try session(SessionID(UInt64(bitPattern: place)))
        try run("DELETE FROM session WHERE id = ?", [place])
        // Of the size of a session.
        try run("INSERT INTO ended VALUES (?, hex(zeroblob(2048)), 0)", [place])
        try run("DELETE FROM ended WHERE id = ?", [place])
        // Rows of each kind, because those of a kind are neighbours.
        for scope in ThrottleKey.Scope.allCases {
            try run("INSERT INTO throttle VALUES (?, ?, 0, 0, 0, 0)", [Int64(scope.rawValue), place])
            try run("DELETE FROM throttle WHERE scope = ? AND hash = ?", [Int64(scope.rawValue), place])
        }
    }

    /// Discards cached pages: damaged ones may have been restored in the file.
    func forgetPages() throws { try execute(sql: "PRAGMA shrink_memory") }

    /// Runs an atomic transaction that takes the write lock first, so values read in it stay valid until its end.
    func inImmediateTransaction<Value>(_ durability: SQLiteDurability, _ body: (Database) throws -> Value) throws
        -> Value
    {
        try durability.apply(to: self)
        try beginTransaction(.immediate)
        do {
            let value = try body(self)
            try commit()
            return value
        } catch {
            // Some failures have rolled back already.
            if isInsideTransaction { try? rollback() }
            throw error
        }
    }
}
