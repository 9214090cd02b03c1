import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Queue of the pool")
struct UpstreamPoolQueueTests {
    /// A pool whose only connection is leased to request 0.
    private static func full(pending: Int = 100, pendingTimeout: UInt64 = 10_000) throws -> (
        PoolFixture, PooledTestConnection
    ) {
        let pool = PoolFixture(max: 1, pending: pending, pendingTimeout: pendingTimeout)
        let connection = try pool.establish(0)
        return (pool, connection)
    }

    @Test("A request that leaves the queue is not served, and its place is free")
    func cancelled() throws {
        let (pool, connection) = try Self.full(pending: 2)
        let waiters = try [1, 2].map { try require(pool.lease($0).waiter) }
        expect(pool.lease(3), equals: .rejectQueueFull)
        pool.machine.cancel(waiters[0])
        pool.machine.cancel(waiters[0])
        expect(pool.lease(4).waits)
        expect(pool.lease(5), equals: .rejectQueueFull)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 2))
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 4))
        expect(pool.machine.released(connection), equals: .keep(connection))
        pool.machine.cancel(waiters[1])
    }

    @Test("A request that has waited for pendingTimeout is rejected, one nanosecond before it is not")
    func timeout() throws {
        let (pool, _) = try Self.full(pendingTimeout: 400)
        expect(pool.lease(1, at: 100).waits)
        expect(pool.lease(2, at: 101).waits)
        expect(pool.machine.nextExpiry, equals: 500_000_000)
        expect(pool.machine.expire(now: 499_999_999), equals: nil)
        expect(pool.expire(at: 500), equals: [ExpiredWaiter(waiter: 1, reason: .timeout)])
        expect(pool.expire(at: 501), equals: [ExpiredWaiter(waiter: 2, reason: .timeout)])
        expect(pool.machine.nextExpiry, equals: .max)
        expect(pool.machine.waitingCount, equals: 0)
    }

    @Test("A queue that was not empty for 500 ms is congested: requests wait for 50 ms at most")
    func congested() throws {
        let (pool, _) = try Self.full()
        expect(pool.lease(1, at: 1_000).waits)
        expect(pool.lease(2, at: 1_460).waits)
        expect(pool.machine.nextExpiry, equals: 1_500_000_000)
        expect(empty: pool.expire(at: 1_499))
        expect(pool.expire(at: 1_500), equals: [ExpiredWaiter(waiter: 1, reason: .congested)])
        expect(pool.machine.nextExpiry, equals: 1_510_000_000)
        expect(empty: pool.expire(at: 1_509))
        expect(pool.lease(3, at: 1_509).waits)
        expect(pool.expire(at: 1_510), equals: [ExpiredWaiter(waiter: 2, reason: .congested)])
        // Not empty since: still congested.
        expect(empty: pool.expire(at: 1_558))
        expect(pool.expire(at: 1_559), equals: [ExpiredWaiter(waiter: 3, reason: .congested)])
    }

    @Test("A queue that was empty within 500 ms is not congested")
    func notCongested() throws {
        let (pool, connection) = try Self.full()
        expect(pool.lease(1, at: 1_000).waits)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 1))
        expect(pool.lease(2, at: 1_300).waits)
        expect(empty: pool.expire(at: 1_799))
        expect(pool.expire(at: 1_800), equals: [ExpiredWaiter(waiter: 2, reason: .congested)])
        expect(pool.lease(3, at: 1_801).waits)
        expect(empty: pool.expire(at: 1_900))
    }

    @Test("Requests that connection attempts are expected to serve do not make a queue congested")
    func connectingIsNotCongested() throws {
        let pool = PoolFixture(max: 2)
        let attempts = try [1, 2].map { try require(pool.lease($0).attempt) }
        expect(empty: pool.expire(at: 5_000))
        expect(pool.machine.nextExpiry, equals: 10_000_000_000)
        expect(pool.lease(3, at: 5_000).waits)
        expect(pool.lease(4, at: 5_000).waits)
        expect(empty: pool.expire(at: 5_499))
        // As many stay as there are attempts.
        expect(pool.expire(at: 5_500).map(\.waiter), equals: [1, 2])
        expect(empty: pool.expire(at: 6_000))
        for (attempt, waiter) in zip(attempts, [3, 4]) {
            let connection = pool.connection(attempt)
            expect(pool.machine.connected(connection), equals: .handOver(connection, to: waiter))
        }
    }

    @Test("No request waits past its own deadline, in whatever order the deadlines are")
    func deadlines() throws {
        let (pool, connection) = try Self.full()
        for (waiter, deadline) in [(1, 300), (2, 100), (3, nil), (4, 200)] as [(Int, UInt64?)] {
            expect(pool.lease(waiter, deadline: deadline).waits)
        }
        expect(pool.machine.nextExpiry, equals: 100_000_000)
        expect(empty: pool.expire(at: 99))
        expect(pool.expire(at: 100), equals: [ExpiredWaiter(waiter: 2, reason: .deadline)])
        expect(pool.machine.nextExpiry, equals: 200_000_000)
        expect(pool.lease(5, at: 110, deadline: 150).waits)
        expect(pool.machine.nextExpiry, equals: 150_000_000)
        expect(Set(pool.expire(at: 250).map(\.waiter)), equals: [4, 5])
        expect(pool.expire(at: 300), equals: [ExpiredWaiter(waiter: 1, reason: .deadline)])
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 3))
    }

    @Test("Times near the end of the clock do not overflow")
    func overflow() throws {
        let pool = PoolFixture(max: 1, pendingTimeout: .max / 1_000_000)
        _ = try pool.establish(0)
        _ = pool.machine.lease(1, TargetPicker.Choice(first: 0), now: .max - 1)
        expect(pool.machine.nextExpiry, equals: .max)
        expect(pool.machine.expire(now: 0), equals: nil)
        expect(pool.machine.waitersWithoutPermit(longerThan: 100, now: 0), equals: 0)
    }

    @Test("Requests that wait without a permit count for the pressure on slow clients")
    func pressure() throws {
        let (pool, connection) = try Self.full()
        expect(pool.machine.waitersWithoutPermit(longerThan: 0, now: 1_000_000_000), equals: 0)
        for waiter in 1...3 { expect(pool.lease(waiter, at: UInt64(waiter) * 100).waits) }
        expect(pool.machine.waitersWithoutPermit(longerThan: 100_000_000, now: 350_000_000), equals: 2)
        expect(pool.machine.waitersWithoutPermit(longerThan: 100_000_000, now: 200_000_000), equals: 0)
        // An attempt is expected to serve one of them.
        _ = pool.machine.gone(connection)
        expect(pool.machine.waitersWithoutPermit(longerThan: 100_000_000, now: 350_000_000), equals: 1)
    }

    @Test("Half of the queue is guaranteed to each loop in equal parts, the other half is common")
    func places() throws {
        let pool = PoolFixture(max: 2, pending: 8, loops: 2)
        let other = pool.other(1)
        _ = try pool.establish(0)
        _ = try other.establish(0)
        // 2 guaranteed and 4 common ones.
        for waiter in 1...6 { expect(pool.lease(waiter).waits) }
        expect(pool.lease(7), equals: .rejectQueueFull)
        for waiter in 1...2 { expect(other.lease(waiter).waits) }
        expect(other.lease(3), equals: .rejectQueueFull)
        expect(pool.expire(at: 10_000).count, equals: 6)
        expect(other.lease(3).waits)
    }

    @Test("Waiters leave in any order at a cost that does not depend on their number")
    func costOfCancelling() {
        func run(_ count: Int) {
            let pool = PoolFixture(max: 1, pending: 2 * count)
            var generator = SeededGenerator(seed: 1)
            _ = pool.lease(-1)
            var waiters = (0..<count).compactMap { pool.lease($0).waiter }
            waiters.shuffle(using: &generator)
            for waiter in waiters { pool.machine.cancel(waiter) }
            expect(pool.machine.waitingCount, equals: 1)
        }
        #expect(LinearTime.ratio({ run(2_500) }, to: { run(10_000) }) < 12)
    }

    @Test("Deadlines that pass together are found at a cost that does not depend on their number")
    func costOfDeadlines() {
        func run(_ count: Int) {
            let pool = PoolFixture(max: 1, pending: 3 * count)
            _ = pool.lease(-1)
            for waiter in 0..<count { _ = pool.lease(waiter) }
            for waiter in 0..<count { _ = pool.lease(waiter, deadline: UInt64(1 + waiter % 7)) }
            expect(pool.expire(at: 8).count, equals: count)
        }
        #expect(LinearTime.ratio({ run(2_500) }, to: { run(10_000) }) < 12)
    }
}

extension UpstreamPoolStateMachine {
    /// The time at which ``expire(now:)`` will reject a waiter if nothing else happens before; `.max` if there is none.
    /// It may be earlier, because the deadline of a waiter that has left is not always forgotten at once.
    fileprivate var nextExpiry: UInt64 {
        guard let oldest = queue.oldest else { return .max }
        var time = min(oldest.addingClamped(limits.pendingTimeout), queue.earliestDeadline)
        if unserved > 0, let queuedSince {
            let congested = max(
                oldest.addingClamped(limits.congestedTimeout), queuedSince.addingClamped(limits.congestedAfter))
            time = min(time, congested)
        }
        return time
    }
}
