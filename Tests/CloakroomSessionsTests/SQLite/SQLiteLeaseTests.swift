import CloakroomCore
import Synchronization
import Testing

@testable import CloakroomSessions

@Suite("Leases of two processes with one SQLite file", .timeLimit(.minutes(1)))
struct SQLiteLeaseTests {
    /// The machine's monotonic clock, which no process can set.
    private final class Machine: Sendable {
        private let time = Mutex(Timestamp(milliseconds: 5_000_000))

        var now: Timestamp { time.withLock { $0 } }
        func advance(by duration: Duration) { time.withLock { $0 = $0 + duration } }
    }

    private let machine = Machine()
    private let directory: SQLiteTestDirectory
    private let record = SampleRecord.record(1)
    private let leaseTime = Duration.seconds(15)

    init() throws {
        directory = try SQLiteTestDirectory()
    }

    private func process() -> SQLiteRecordStore {
        directory.store { [machine] _ in machine.now }
    }

    @Test(
        "are held and expire alike for both, for any difference between their wall clocks",
        arguments: [0, 20, 3_600, -20, -3_600, 100_000_000] as [Int64])
    func clockStep(seconds: Int64) async throws {
        let (old, new) = (process(), process())
        #expect(try await old.insert(record))
        let oldNow = SampleRecord.start
        let newNow = oldNow + .seconds(seconds)
        let held = try #require(try await old.lease(record.key.id, for: leaseTime, now: oldNow).lease)
        #expect(try await new.lease(record.key.id, for: leaseTime, now: newNow) == .heldByOther)
        var next = record
        next.version = 2
        #expect(try await new.replace(next, fence: nil, now: newNow) == .fenced)
        machine.advance(by: leaseTime - .milliseconds(1))
        #expect(try await new.lease(record.key.id, for: leaseTime, now: newNow + leaseTime) == .heldByOther)
        machine.advance(by: .milliseconds(1))
        let taken = try #require(try await new.lease(record.key.id, for: leaseTime, now: newNow).lease)
        #expect(taken.fencingToken == held.fencingToken + 1)
        #expect(try await old.replace(next, fence: held.fencingToken, now: oldNow) == .fenced)
        try await new.release(record.key.id, fence: taken.fencingToken)
        #expect(try await old.lease(record.key.id, for: leaseTime, now: oldNow).lease != nil)
    }

    @Test("expire at a restart of the machine, which resets its clock")
    func reboot() async throws {
        let old = process()
        #expect(try await old.insert(record))
        #expect(try await old.lease(record.key.id, for: leaseTime, now: SampleRecord.start).lease != nil)
        machine.advance(by: .seconds(-4_000))
        #expect(try await process().lease(record.key.id, for: leaseTime, now: SampleRecord.start).lease != nil)
    }

    @Test("of a process of the previous release are evaluated by the wall clock, as that process wrote them")
    func earlierRelease() async throws {
        let new = process()
        #expect(try await new.insert(record))
        let end = SampleRecord.start + leaseTime
        try directory.execute("UPDATE session SET fence = fence + 1, leased_until = \(end.milliseconds)")
        #expect(try await new.lease(record.key.id, for: leaseTime, now: SampleRecord.start) == .heldByOther)
        #expect(try await new.lease(record.key.id, for: leaseTime, now: end).lease?.fencingToken == 2)
        // The other direction: the columns that a process of that release reads.
        try directory.execute(
            "UPDATE session SET expires_at = 0 WHERE leased_until = \((end + leaseTime).milliseconds)")
        guard case .record(let kept) = try await new.read(record) else { throw NoRecord() }
        #expect(kept.expiresAt == Timestamp(milliseconds: 0))
    }

    private struct NoRecord: Error {}

    @Test("A file of the previous release is migrated, and its records are unchanged")
    func migration() async throws {
        let first = process()
        #expect(try await first.insert(record))
        try directory.execute(
            """
            DROP INDEX session_name; ALTER TABLE session DROP COLUMN name; ALTER TABLE session DROP COLUMN lease_fence;
            ALTER TABLE session DROP COLUMN lease_end; DELETE FROM grdb_migrations WHERE identifier = '2'
            """)
        let new = process()
        #expect(try await new.read(record) == .record(record))
        #expect(try await new.records(of: record.account, now: SampleRecord.start) == [record])
        #expect(try await new.lease(record.key.id, for: leaseTime, now: SampleRecord.start).lease?.fencingToken == 1)
    }

    @Test("The machine's clock never goes back, and is the same for two processes")
    func machineClock() {
        let first = MachineClock.now
        #expect(first.milliseconds > 0)
        #expect(MachineClock.now >= first)
    }
}
