import CloakroomCore
import Foundation
import Glibc
import TestSupport
import Testing

@testable import CloakroomSessions

/// Obstacles to opening, and the errors that report them.
@Suite("Opening a SQLite file", .timeLimit(.minutes(2)))
struct SQLiteOpeningTests {
    private let directory: SQLiteTestDirectory
    private let store: SQLiteRecordStore

    init() throws {
        directory = try SQLiteTestDirectory()
        store = directory.store()
    }

    @Test("is restricted to the owner for all its files, with any umask")
    func permissions() async throws {
        let before = umask(0)
        defer { umask(before) }
        _ = try await store.insert(SampleRecord.record(1))
        for suffix in ["", "-wal", "-shm"] {
            try expect(directory.permissions(directory.file + suffix), equals: 0o600)
        }
    }

    @Test("removes the permissions of others from an existing file")
    func narrowsPermissions() async throws {
        expect(FileManager.default.createFile(atPath: directory.file, contents: nil))
        expect(chmod(directory.file, 0o644), equals: 0)
        _ = try await store.insert(SampleRecord.record(1))
        for suffix in ["", "-wal", "-shm"] {
            try expect(directory.permissions(directory.file + suffix), equals: 0o600)
        }
    }

    @Test("reports the problem, the path and a remedy")
    func problems() throws {
        expect(problem(at: ""), equals: .pathMissing)
        expect(problem(at: directory.path + "/none/x.sqlite"), equals: .directoryMissing(directory.path + "/none"))
        expect(problem(at: directory.path), equals: .notAFile)
        try Data(repeating: 0x41, count: 8_192).write(to: URL(fileURLWithPath: directory.file))
        expect(problem(at: directory.file), equals: .notADatabase)
        try expect(Data(contentsOf: URL(fileURLWithPath: directory.file)), equals: Data(repeating: 0x41, count: 8_192))
        for problem in [
            SQLiteStoreError.Kind.pathMissing, .directoryMissing("/f"), .notAFile, .accessDenied("denied"),
            .notADatabase, .foreignDatabase,
            .newerVersion,
            .moved, .sqlite(SQLiteError(code: 10)),
        ] {
            let text = SQLiteStoreError(problem, path: "/f/x.sqlite").description
            expect(problem == .pathMissing || text.contains("/f/x.sqlite"))
            #expect(text.count < 300)
        }
    }

    @Test("leaves the database of another program unchanged")
    func foreign() throws {
        try directory.execute("CREATE TABLE bookmark (id INTEGER PRIMARY KEY)")
        expect(chmod(directory.file, 0o644), equals: 0)
        let bytes = try Data(contentsOf: URL(fileURLWithPath: directory.file))
        expect(problem(at: directory.file), equals: .foreignDatabase)
        try expect(Data(contentsOf: URL(fileURLWithPath: directory.file)), equals: bytes)
        try expect(directory.permissions(directory.file), equals: 0o644)
    }

    @Test("rejects a file that a later release wrote, and reports it")
    func newer() async throws {
        _ = try await directory.store().insert(SampleRecord.record(1))
        try directory.execute("INSERT INTO grdb_migrations VALUES ('9')")
        expect(problem(at: directory.file), equals: .newerVersion)
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.read(SampleRecord.record(1)) }
        expect(directory.log.texts.contains { $0.contains("a later release of Cloakroom has written it") })
    }

    @Test("is retried until it succeeds; the log reports the failure once and the recovery once")
    func retries() async throws {
        let file = directory.path + "/later/sessions.sqlite"
        let store = directory.store(file)
        for number in 0..<3 {
            await #expect(throws: SessionStoreError(.unavailable)) {
                try await store.insert(SampleRecord.record(UInt64(number)))
            }
        }
        let changes = RecordingChangeDelegate()
        let running = Task { await store.run(changes) }
        defer { running.cancel() }
        try FileManager.default.createDirectory(atPath: directory.path + "/later", withIntermediateDirectories: false)
        await changes.wait(for: .up)
        try await expect(store.insert(SampleRecord.record(1)))
        expect(directory.log.texts.count { $0.hasPrefix("error session store failed") }, equals: 1)
        expect(directory.log.texts.count { $0.hasPrefix("notice session store recovered") }, equals: 1)
    }

    @Test("is repeated if the file was removed, and the store is disconnected meanwhile")
    func moved() async throws {
        _ = try await store.insert(SampleRecord.record(1))
        try await store.whileRunning { changes in
            for suffix in ["", "-wal", "-shm"] { try FileManager.default.removeItem(atPath: directory.file + suffix) }
            await changes.wait(for: .down)
            await changes.wait(for: .up)
            try await expect(store.read(SampleRecord.record(1)), equals: .none)
            try await expect(store.insert(SampleRecord.record(2)))
        }
        expect(directory.log.texts.contains { $0.contains("moved, removed or replaced") })
    }

    @Test("is repeated at once if a damaged file is moved away, and what is acknowledged then is kept")
    func damagedAndMoved() async throws {
        _ = try await store.insert(SampleRecord.record(1))
        try await store.whileRunning { changes in
            // No poll succeeds any more, although sessions can be read.
            try directory.damage("change")
            await changes.wait(for: .down)
            try await eventually("the store fails") { store.isFailing }
            try await eventually("the record is read") {
                (try? await store.read(SampleRecord.record(1))) == .record(SampleRecord.record(1))
            }
            expect(store.isFailing)
            expect(!directory.log.texts.contains { $0.hasPrefix("notice") })
            try directory.moveAway()
            await changes.wait(for: .up)
            expect(!store.isFailing)
            try await expect(store.insert(SampleRecord.record(2)))
        }
        expect(directory.log.texts.last?.hasPrefix("notice session store recovered"), equals: true)
        let restarted = directory.store()
        try await expect(restarted.read(SampleRecord.record(2)), equals: .record(SampleRecord.record(2)))
        try await expect(restarted.read(SampleRecord.record(1)), equals: .none)
    }

    @Test("is the only way to write durably if the file was moved: nothing is acknowledged that a restart would lose")
    func movedUnnoticed() async throws {
        _ = try await store.insert(SampleRecord.record(1))
        try directory.moveAway()
        await #expect(throws: SessionStoreError(.unavailable)) { try await store.insert(SampleRecord.record(2)) }
        expect(store.isFailing)
        expect(directory.log.texts.count { $0.contains("moved, removed or replaced") }, equals: 1)
    }

    @Test("from two processes at once creates one file")
    func together() async throws {
        for _ in 0..<5 {
            let directory = try SQLiteTestDirectory()
            let stores = (0..<4).map { _ in directory.store() }
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for (number, store) in stores.enumerated() {
                    group.addTask { try await store.insert(SampleRecord.record(UInt64(number))) }
                }
                for try await isNew in group { expect(isNew) }
            }
            try await expect(stores[0].records(in: .account(7), now: SampleRecord.start).count, equals: 4)
            expect(directory.log.texts, equals: [])
        }
    }

    private func problem(at path: String) -> SQLiteStoreError.Kind? {
        do throws(SQLiteStoreError) {
            _ = try SQLiteFile(path: path)
            return nil
        } catch {
            return error.problem
        }
    }
}
