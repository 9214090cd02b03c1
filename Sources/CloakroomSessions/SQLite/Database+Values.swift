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

    /// Writes a row of the size of a session and deletes it: succeeds only if there is room, and no lock.
    func testWrite(by process: Int64) throws {
        try run("INSERT INTO ended VALUES (?, hex(zeroblob(2048)), 0)", [process])
        try run("DELETE FROM ended WHERE id = ?", [process])
    }

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
