import CloakroomCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Leases of two processes with one SQLite file", .timeLimit(.minutes(1)))
struct SQLiteLeaseTests {
    /// The machine's monotonic clock, which no process can set.
    private final class Machine: Sendable {
        private let time = Mutex(MonotonicTime(milliseconds: 5_000_000))

        var now: MonotonicTime { time.withLock { $0 } }
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
        try await expect(old.insert(record))
        let oldNow = SampleRecord.start
        let newNow = oldNow + .seconds(seconds)
        let held = try await require(old.lease(record.key.id, for: leaseTime, now: oldNow).lease)
        try await expect(new.lease(record.key.id, for: leaseTime, now: newNow), equals: .heldByOther)
        var next = record
        next.version = 2
        try await expect(new.replace(next, fence: nil, now: newNow), equals: .fenced)
        machine.advance(by: leaseTime - .milliseconds(1))
        try await expect(new.lease(record.key.id, for: leaseTime, now: newNow + leaseTime), equals: .heldByOther)
        machine.advance(by: .milliseconds(1))
        let taken = try await require(new.lease(record.key.id, for: leaseTime, now: newNow).lease)
        expect(taken.fencingToken, equals: held.fencingToken + 1)
        try await expect(old.replace(next, fence: held.fencingToken, now: oldNow), equals: .fenced)
        try await new.release(record.key.id, fence: taken.fencingToken)
        try await expect(old.lease(record.key.id, for: leaseTime, now: oldNow).lease != nil)
    }

    @Test("expire at a restart of the machine, which resets its clock")
    func reboot() async throws {
        let old = process()
        try await expect(old.insert(record))
        try await expect(old.lease(record.key.id, for: leaseTime, now: SampleRecord.start).lease != nil)
        machine.advance(by: .seconds(-4_000))
        try await expect(process().lease(record.key.id, for: leaseTime, now: SampleRecord.start).lease != nil)
    }

    @Test("The machine's clock never goes back, and is the same for two processes")
    func machineClock() {
        let first = MachineClock.now
        #expect(first.milliseconds > 0)
        #expect(MachineClock.now >= first)
    }
}
