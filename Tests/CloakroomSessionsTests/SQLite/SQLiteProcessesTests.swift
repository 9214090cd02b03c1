import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomSessions

/// Two gateways with one file, as during a handover.
@Suite("Two processes on one SQLite file", .timeLimit(.minutes(2)))
struct SQLiteProcessesTests {
    private let start = SampleRecord.start

    @Test("save one of a hundred changes of the same version")
    func compareAndSet() async throws {
        let directory = try SQLiteTestDirectory()
        let stores = [directory.store(), directory.store()]
        _ = try await stores[0].insert(SampleRecord.record(1))
        let next = SampleRecord.record(1, version: 2)
        let changes = try await withThrowingTaskGroup(of: RecordUpdateResult.self) { group in
            for number in 0..<100 {
                group.addTask { try await stores[number % 2].replace(next, fence: nil, now: start) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        expect(changes.count { $0 == .done }, equals: 1)
        expect(changes.count { $0 == .changed }, equals: 99)
    }

    @Test("Rule 24: notify each other of changes and ends, and get no notification of their own")
    func changesAreTold() async throws {
        let directory = try SQLiteTestDirectory()
        let (first, second) = (directory.store(), directory.store())
        let records = (0..<4).map { SampleRecord.record(UInt64($0)) }
        for record in records { _ = try await first.insert(record) }
        try await first.whileRunning { changes in
            try await expect(first.replace(SampleRecord.record(0, version: 2), fence: nil, now: start), equals: .done)
            _ = try await first.remove(records[1].key.id, reason: .signedOut, condition: nil, now: start)
            try await expect(second.replace(SampleRecord.record(2, version: 2), fence: nil, now: start), equals: .done)
            await changes.wait(for: .changed(records[2].key.id))
            _ = try await second.remove(records[3].key.id, reason: .revoked, condition: nil, now: start)
            await changes.wait(for: .changed(records[3].key.id))
            expect(
                changes.events, equals: [.up, .changed(records[2].key.id), .changed(records[3].key.id)])
            expect(first.count, equals: 2)
        }
    }

    @Test("report that any record may have changed if single changes are not known any more")
    func missedChanges() async throws {
        let directory = try SQLiteTestDirectory()
        let store = directory.store()
        _ = try await store.insert(SampleRecord.record(1))
        try await store.whileRunning { changes in
            // One transaction: a change that is deleted before any process polls.
            try directory.execute(
                """
                BEGIN; INSERT INTO change (id, process, at) VALUES (1, 2, 3), (4, 5, 6);
                DELETE FROM change WHERE id = 1; COMMIT
                """)
            await changes.wait(for: .allChanged)
            try directory.execute("INSERT INTO change (id, process, at) VALUES (9, 2, 3)")
            await changes.wait(for: .changed(SessionID(9)))
        }
    }

    @Test("count each expired session once between them")
    func clearing() async throws {
        let later = SampleRecord.end + SQLiteRecordStore.tombstoneLifetime
        let directory = try SQLiteTestDirectory(now: later)
        let stores = [directory.store(), directory.store()]
        for number in 0..<1_200 {
            let record = SampleRecord.record(UInt64(number), size: 8)
            // Some were used until the end, so that the absolute timeout ends them.
            let keepUntil = number < 200 ? later : SampleRecord.end
            _ = try await stores[0].insert(record, keepUntil: keepUntil, now: start)
        }
        let living = SampleRecord.record(5_000)
        _ = try await stores[0].insert(living, keepUntil: later + .milliseconds(1), now: start)
        try await stores[0].whileRunning { first in
            try await stores[1].whileRunning { second in
                try await eventually("all but one are removed") { stores[0].count == 1 && stores[1].count == 1 }
                // The last batch is counted after its removal.
                try await eventually("all are counted") { expired([first, second]).reduce(0, +) >= 1_200 }
                expect(expired([first, second]), equals: [1_000, 200])
            }
        }
        try await expect(stores[1].read(living), equals: .record(living))
    }

    private func expired(_ spies: [RecordingChangeDelegate]) -> [Int] {
        spies.flatMap(\.events).reduce(into: [0, 0]) { sum, event in
            guard case .expired(let idle, let absolute) = event else { return }
            sum = [sum[0] + idle, sum[1] + absolute]
        }
    }
}
