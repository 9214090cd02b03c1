import CloakroomCore
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// The specifics of storing records in a file; the contract of all stores covers everything else.
@Suite("SQLite records", .timeLimit(.minutes(2)))
struct SQLiteRecordStoreTests {
    private let directory: SQLiteTestDirectory
    private let store: SQLiteRecordStore
    private let start = SampleRecord.start

    init() throws {
        directory = try SQLiteTestDirectory()
        store = directory.store()
    }

    @Test("are read back from the file unchanged")
    func roundTrip() async throws {
        var record = SampleRecord.record(.max, account: .max, version: 1 << 63)
        record.client = []
        try await expect(store.insert(record))
        try await expect(store.insert(record), equals: false)
        try await expect(store.read(record), equals: .record(record))
        try await expect(store.records(in: .account(.max), now: start), equals: [record.listed])
        expect(store.count, equals: 1)
    }

    @Test("that were acknowledged survive a crash, and no others do")
    func crash() async throws {
        try await insert(0..<500, into: store)
        // The files at this moment are those of a process that is killed now.
        let copy = directory.path + "/copy.sqlite"
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: directory.file + suffix, toPath: copy + suffix)
        }
        try await insert(500..<1_000, into: store)
        let survivor = directory.store(copy)
        for number in 0..<1_000 {
            let record = SampleRecord.record(UInt64(number))
            try await expect(survivor.read(record), equals: number < 500 ? .record(record) : .none)
        }
        try await expect(survivor.insert(SampleRecord.record(2_000)))
        expect(survivor.count, equals: 501)
        expect(store.count, equals: 1_000)
    }

    @Test("are saved if their caller is cancelled meanwhile")
    func cancelled() async throws {
        let record = SampleRecord.record(1)
        let (gate, opener) = AsyncStream<Void>.makeStream()
        let saving = Task {
            for await _ in gate {}
            expect(Task.isCancelled)
            return try await store.insert(record)
        }
        saving.cancel()
        opener.finish()
        try await expect(saving.value)
        try await expect(store.read(record), equals: .record(record))
    }

    @Test("do not make the WAL file grow without bound", .timeLimit(.minutes(1)))
    func logIsWrittenBack() async throws {
        try await store.whileRunning { _ in
            // A commit that does not make the WAL longer overwrites its start, whose pages are in the database already.
            try await eventually("the log does not grow any more") {
                let before = try size(of: directory.file + "-wal")
                try await expect(store.insert(SampleRecord.record(.random(in: 0 ... .max), size: 2_000)))
                return try size(of: directory.file + "-wal") == before
            }
            #expect(try size(of: directory.file + "-wal") < 32 << 20)
            #expect(try size(of: directory.file) > 40_000)
        }
    }

    private func size(of file: String) throws -> Int {
        (try FileManager.default.attributesOfItem(atPath: file)[.size] as? NSNumber)?.intValue ?? 0
    }

    @Test("are kept as long as their last replacement asks for")
    func replacementExtends() async throws {
        let directory = try SQLiteTestDirectory(now: SampleRecord.end)
        let store = directory.store()
        for number in 1...2 as ClosedRange<UInt64> { _ = try await store.insert(SampleRecord.record(number)) }
        let next = SampleRecord.record(1, version: 2)
        let longer = SampleRecord.end + .seconds(60)
        try await expect(store.replace(next, keepUntil: longer, fence: nil, now: start), equals: .done)
        let last = SampleRecord.record(1, version: 3)
        try await expect(store.replace(last, keepUntil: start, fence: nil, now: start), equals: .done)
        try await store.whileRunning { _ in
            try await eventually("the other one is deleted") { store.count == 1 }
            try await expect(store.read(last), equals: .record(last))
        }
    }

    @Test("leave no rows of changes that are older than 60 s")
    func oldChanges() async throws {
        let directory = try SQLiteTestDirectory(now: start + .seconds(61))
        let store = directory.store()
        try await expect(store.insert(SampleRecord.record(1)))
        let next = SampleRecord.record(1, version: 2)
        try await expect(store.replace(next, keepUntil: SampleRecord.end, fence: nil, now: start), equals: .done)
        let connector = SQLiteConnector(path: directory.file, log: SQLiteFailureLog(directory.log.logger))
        let count = { @Sendable () async throws -> Int64? in
            try await connector.read { db in try db.row("SELECT count(*) FROM change")?.integer(0) }
        }
        try await expect(count(), equals: 1)
        try await store.whileRunning { _ in
            try await eventually("the row is deleted") { try await count() == 0 }
        }
    }

    @Test("At most 8,192 operations are in flight: while they hang, a further one fails at once")
    func operations() async throws {
        let connector = SQLiteConnector(path: directory.file, log: SQLiteFailureLog(directory.log.logger))
        _ = try await connector.file()
        let hanging = DispatchSemaphore(value: 0)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0...SQLiteConnector.maxConcurrentOperations {
                group.addTask { (try? await connector.read { _ in hanging.wait() }) != nil }
            }
            // All others wait for the first one.
            await expect(group.next(), equals: false)
            for _ in 0..<SQLiteConnector.maxConcurrentOperations { hanging.signal() }
            await expect(group.contains(true))
        }
    }

    private func insert(_ numbers: Range<Int>, into store: SQLiteRecordStore) async throws {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in numbers {
                group.addTask { try await store.insert(SampleRecord.record(UInt64(number))) }
            }
            for try await isNew in group { expect(isNew) }
        }
    }
}
