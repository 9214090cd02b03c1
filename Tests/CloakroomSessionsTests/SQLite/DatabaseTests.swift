import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("A connection to a SQLite file")
struct DatabaseTests {
    private let directory: TemporaryDirectory
    private let db: Database

    init() throws {
        directory = try TemporaryDirectory()
        db = try Database(path: directory.path + "/test.sqlite")
        try db.execute("CREATE TABLE pair (key INTEGER PRIMARY KEY, value)")
    }

    @Test("returns values as they were given, and none as another type")
    func values() throws {
        let row = try require(
            db.row(
                "SELECT ?, ?, ?, ?, ?, ?, 1.5",
                [UInt64.max, Int64.min, "text", [UInt8](), [0, 0xff] as [UInt8], nil] as [(any SQLiteArgument)?]))
        expect(row.unsigned(0), equals: .max)
        expect(row.integer(1), equals: .min)
        expect(row.text(2), equals: "text")
        expect(row.bytes(3), equals: [])
        expect(row.bytes(4), equals: [0, 0xff])
        expect(row.bytes(2) == nil && row.text(4) == nil)
        for column in [2, 5, 6, 7] { expect(row.integer(column), equals: nil) }
    }

    @Test("has extended codes in its errors, and remains usable")
    func errors() throws {
        for _ in 0..<2 {
            try db.run("INSERT OR REPLACE INTO pair VALUES (?, ?)", [1, "a"])
            // SQLITE_CONSTRAINT_PRIMARYKEY
            let error = #expect(throws: SQLiteError.self) { try db.run("INSERT INTO pair VALUES (?, ?)", [1, "b"]) }
            expect(error, equals: SQLiteError(code: 1_555))
            expect(error?.primaryCode, equals: 19)
            #expect(throws: SQLiteError(code: 1)) { try db.run("SELECT nothing FROM pair", []) }
        }
        try expect(db.row("SELECT value FROM pair")?.text(0), equals: "a")
    }

    @Test("rolls back a part of a transaction alone, and a transaction as a whole")
    func transactions() throws {
        try db.atomically { db in
            try db.run("INSERT INTO pair VALUES (?, ?)", [1, "kept"])
            #expect(throws: CancellationError.self) {
                try db.atomically(isPart: true) { db in
                    try db.run("INSERT INTO pair VALUES (?, ?)", [2, "lost"])
                    throw CancellationError()
                }
            }
        }
        #expect(throws: CancellationError.self) {
            try db.atomically { db in
                try db.run("INSERT INTO pair VALUES (?, ?)", [3, "lost"])
                throw CancellationError()
            }
        }
        expect(!db.isInsideTransaction)
        try expect(db.run("SELECT key FROM pair").map { $0.integer(0) }, equals: [1])
    }
}
