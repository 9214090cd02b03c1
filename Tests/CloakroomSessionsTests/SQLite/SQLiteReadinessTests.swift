import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// What `/ready` and the log state about a file that is damaged, locked or read-only.
@Suite("A SQLite file that cannot be used as a whole or in part", .timeLimit(.minutes(2)))
struct SQLiteReadinessTests {
    private let directory: SQLiteTestDirectory
    private let records: SQLiteRecordStore
    private let store: SealedSessionStore<SQLiteRecordStore>
    private let start = SampleRecord.start

    init() throws {
        directory = try SQLiteTestDirectory()
        records = directory.store(interval: .seconds(3))
        store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
    }

    @Test(
        "is damaged in single sessions: the gateway stays ready, also with few others, and the log has that and its end",
        arguments: [12, 200])
    func singleSession(count: UInt64) async throws {
        let damaged = SampleRecord.record(5, size: 1_500)
        for number in 1...count { _ = try await records.insert(SampleRecord.record(number, size: 1_500)) }
        try await RunningStore.with(store) { store in
            let page = try directory.page(with: Data(repeating: 5, count: 1_000))
            let intact = try directory.overwrite(page)
            let first = try directory.tallyStep()
            // A client repeats a request of that session.
            try await eventually("the store has been tested twice") {
                await #expect(throws: SessionStoreError(.unavailable)) { try await records.read(damaged) }
                expect(store.isAvailable)
                return try directory.tallyStep() >= first + 4
            }
            var readable = 0
            for number in 1...count {
                if (try? await records.read(SampleRecord.record(number))) != nil { readable += 1 }
            }
            #expect(readable > Int(count) / 2)
            expect(directory.log.texts.count, equals: 1)
            expect(directory.log.texts.first?.hasPrefix("error session store is damaged in part"), equals: true)
            // Restored in place, without a restart.
            try directory.replace(page, with: intact)
            try await eventually("the session is read") { (try? await records.read(damaged)) == .record(damaged) }
            try await eventually("the log has the recovery") { directory.log.texts.count > 1 }
            expect(directory.log.texts.count, equals: 2)
            try await logged("notice session store recovered")
            expect(store.isAvailable)
        }
    }

    @Test("is damaged in expired sessions: all others, and expired states of the throttle, are deleted")
    func expiredSessions() async throws {
        let directory = try SQLiteTestDirectory(now: SampleRecord.end + .seconds(1))
        let records = directory.store(interval: .seconds(3))
        let store = SealedSessionStore(records, configuration: Sample.configuration, secrets: Sample.secrets)
        for number: UInt64 in 1...100 { _ = try await records.insert(SampleRecord.record(number, size: 1_500)) }
        try directory.execute("INSERT INTO throttle VALUES (2, 1, 1, 0, 0, 1)")
        _ = try directory.overwrite(try directory.page(with: Data(repeating: 5, count: 1_000)))
        try await RunningStore.with(store) { _ in
            try await eventually("the state is deleted") {
                try directory.value("SELECT COUNT(*) FROM throttle WHERE scope = 2") == 0
            }
            // Those of the damaged page, and of its neighbours with which it would be merged, remain.
            try await eventually("sessions are deleted") { records.count < 50 }
        }
    }

    @Test("is damaged for all sessions: the gateway is not ready until the file is restored, in place too")
    func allSessions() async throws {
        for number: UInt64 in 1...200 { _ = try await records.insert(SampleRecord.record(number, size: 1_500)) }
        let record = SampleRecord.record(5, size: 1_500)
        try await RunningStore.with(store) { store in
            let page = try directory.rootPage(of: "session")
            let intact = try directory.overwrite(page)
            await #expect(throws: SessionStoreError(.unavailable)) { try await records.read(record) }
            try await eventually("the gateway is not ready") { !store.isAvailable }
            try await logged("error session store failed")
            try directory.replace(page, with: intact)
            try await eventually("the gateway is ready") { store.isAvailable }
            try await eventually("the session is read") { (try? await records.read(record)) == .record(record) }
            try await eventually("no data are damaged") { !records.connector.needsTest }
            expect(directory.log.texts.count { $0.hasPrefix("error session store failed") }, equals: 1)
            try await logged("notice session store recovered")
        }
    }

    @Test("is damaged and moved away: the gateway is ready as soon as there is a new one")
    func replaced() async throws {
        _ = try await records.insert(SampleRecord.record(1))
        try await RunningStore.with(store) { store in
            _ = try directory.overwrite(try directory.rootPage(of: "session"))
            _ = try? await records.read(SampleRecord.record(1))
            try await eventually("the gateway is not ready") { !store.isAvailable }
            try directory.moveAway()
            try await eventually("the gateway is ready") { store.isAvailable }
            try await expect(records.insert(SampleRecord.record(2)))
            expect(!records.connector.needsTest)
            try await logged("notice session store recovered")
        }
    }

    @Test("is locked by another program: the gateway is not ready until the lock ends, and valid sessions are served")
    func locked() async throws {
        try await RunningStore.with(store) { store in
            let (ticket, _) = try await store.create(Sample.new(1), now: start)
            let other = try Database(path: directory.file)
            try other.execute("BEGIN IMMEDIATE")
            await #expect(throws: SessionStoreError(.unavailable)) {
                _ = try await store.end(ticket, reason: .signedOut, now: start)
            }
            expect(!store.isAvailable)
            try await logged("error session store failed")
            try await expect(store.load(ticket, now: start).session != nil)
            try other.execute("ROLLBACK")
            try await eventually("the gateway is ready") { store.isAvailable }
            try await logged("notice session store recovered")
            expect(directory.log.texts.count, equals: 2)
            try await expect(store.end(ticket, reason: .signedOut, now: start) != nil)
        }
    }

    @Test("becomes read-only: the gateway is not ready until a write succeeds")
    func readOnly() async throws {
        try await RunningStore.with(store) { store in
            let (ticket, _) = try await store.create(Sample.new(1), now: start)
            let writing = try await records.connector.file().writer.connection
            try await writing.execute("PRAGMA query_only = ON")
            await #expect(throws: SessionStoreError(.unavailable)) {
                _ = try await store.end(ticket, reason: .signedOut, now: start)
            }
            expect(!store.isAvailable)
            try await logged("error session store failed")
            // Opened again, the file can be written.
            try await eventually("the gateway is ready") { store.isAvailable }
            try await logged("notice session store recovered")
            try await expect(store.end(ticket, reason: .signedOut, now: start) != nil)
        }
    }

    /// The state changes before it is logged.
    private func logged(_ text: String) async throws {
        try await eventually("the log has \"\(text)\"") { directory.log.texts.last?.hasPrefix(text) == true }
    }
}
