import CloakroomCore
import Foundation
import GRDB

/// Reads that answer `nil` where a column holds something else than expected: anybody may have written to the file, and
/// GRDB's own subscripts end the process then.
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
    /// Carries out a statement that is prepared once.
    func run(_ sql: String, _ arguments: StatementArguments) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }

    func row(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> Row? {
        try Row.fetchOne(try cachedStatement(sql: sql), arguments: arguments)
    }

    func rows(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws -> [Row] {
        try Row.fetchAll(try cachedStatement(sql: sql), arguments: arguments)
    }

    /// Carries out all of it or nothing, with the lock for writing taken first: what is read in it stays true until the end.
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
