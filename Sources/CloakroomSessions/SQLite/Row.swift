import CSQLite
import CloakroomCore

/// A copy of a row of a result. Its accessors return `nil` if a column does not exist, or holds another type than
/// expected: other programs may have written to the file.
struct Row: Sendable {
    private enum Value {
        case integer(Int64), text(String), blob([UInt8]), other
    }

    private let values: [Value]

    /// - Parameter statement: A statement that has just returned a row.
    init(_ statement: OpaquePointer) {
        values = (0..<sqlite3_column_count(statement)).map { column in
            // SQLite's bytes are valid until the next step. There are none for an empty value, or without memory.
            func bytes(_ start: UnsafeRawPointer?) -> UnsafeRawBufferPointer {
                UnsafeRawBufferPointer(
                    start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(statement, column)))
            }
            return switch sqlite3_column_type(statement, column) {
            case SQLITE_INTEGER: .integer(sqlite3_column_int64(statement, column))
            case SQLITE_TEXT: .text(String(decoding: bytes(sqlite3_column_text(statement, column)), as: UTF8.self))
            case SQLITE_BLOB: .blob(Array(bytes(sqlite3_column_blob(statement, column))))
            default: .other
            }
        }
    }

    func integer(_ column: Int) -> Int64? {
        if column < values.count, case .integer(let value) = values[column] { value } else { nil }
    }

    func unsigned(_ column: Int) -> UInt64? {
        integer(column).map { UInt64(bitPattern: $0) }
    }

    func time(_ column: Int) -> SessionTime? {
        integer(column).map { SessionTime(milliseconds: $0) }
    }

    func bytes(_ column: Int) -> [UInt8]? {
        if column < values.count, case .blob(let value) = values[column] { value } else { nil }
    }

    func text(_ column: Int) -> String? {
        if column < values.count, case .text(let value) = values[column] { value } else { nil }
    }
}

/// A value for a parameter of a statement, which SQLite copies.
protocol SQLiteArgument {
    /// - Returns: A result code.
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32
}

extension SQLiteArgument where Self: BinaryInteger {
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        // Unsigned numbers are stored as signed ones with the same bits.
        sqlite3_bind_int64(statement, index, Int64(truncatingIfNeeded: self))
    }
}

extension Int: SQLiteArgument {}
extension Int64: SQLiteArgument {}
extension UInt8: SQLiteArgument {}
extension UInt32: SQLiteArgument {}
extension UInt64: SQLiteArgument {}

extension String: SQLiteArgument {
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_text(statement, index, self, -1, sqlite_transient())
    }
}

extension [UInt8]: SQLiteArgument {
    func bind(to statement: OpaquePointer, at index: Int32) -> Int32 {
        // Bytes without an address would be NULL.
        isEmpty
            ? sqlite3_bind_zeroblob(statement, index, 0)
            : sqlite3_bind_blob64(statement, index, self, UInt64(count), sqlite_transient())
    }
}
