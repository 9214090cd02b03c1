import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Connections with several streams in the pool")
struct UpstreamPoolStreamsTests {
    private let pool = PoolFixture(max: 1)

    @Test("One connection serves as many requests at once as it has streams, then another is opened")
    func streams() throws {
        let pool = PoolFixture(max: 2, streams: 3)
        let connection = try pool.establish(1, streams: 3)
        expect(pool.lease(2), equals: .use(connection))
        expect(pool.lease(3), equals: .use(connection))
        expect(pool.machine.leasedCount, equals: 3)
        expect(pool.machine.idleCount, equals: 0)
        expect(pool.lease(4).attempt != nil)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 4))
        for _ in 1...2 { expect(pool.machine.released(connection), equals: .nothing) }
        expect(pool.machine.released(connection), equals: .keep(connection))
    }

    @Test("Requests wait for one attempt to a target as long as it is expected to have streams for them")
    func expected() throws {
        let pool = PoolFixture(max: 4, pending: 0, streams: 3)
        let attempt = try require(pool.lease(1).attempt)
        expect(pool.lease(2).waits)
        expect(pool.lease(3).waits)
        expect(pool.lease(4).attempt != nil)
        expect(pool.lease(5, 1).attempt != nil)
        let connection = pool.connection(attempt)
        expect(pool.machine.connected(connection, streams: 3), equals: .handOver(connection, to: 1))
        expect(pool.machine.next(for: connection), equals: .handOver(connection, to: 2))
        expect(pool.machine.next(for: connection), equals: .handOver(connection, to: 3))
        expect(pool.machine.next(for: connection), equals: .nothing)
    }

    @Test("A connection with fewer streams than expected is followed by further attempts")
    func fewer() throws {
        let pool = PoolFixture(max: 3, pending: 0, streams: 100)
        let attempt = try require(pool.lease(1).attempt)
        for waiter in 2...4 { expect(pool.lease(waiter).waits) }
        let connection = pool.connection(attempt)
        expect(pool.machine.connected(connection, streams: 1), equals: .handOver(connection, to: 1))
        for _ in 1...2 {
            guard case .permit(.connect) = pool.machine.next(for: connection) else {
                Issue.record("no attempt")
                return
            }
        }
        // The third request has no permit: other loops are asked.
        expect(pool.machine.next(for: connection), equals: .permit(.askOthers))
        expect(pool.machine.next(for: connection), equals: .nothing)
    }

    @Test("A connection with fewer streams than expected is followed by idle connections to other targets")
    func fewerButIdle() throws {
        let pool = PoolFixture(max: 2, streams: 100)
        let idle = try pool.establish(0, 1, streams: 100)
        let attempt = try require(pool.lease(1, 0).attempt)
        expect(pool.lease(2, 0).waits)
        expect(pool.machine.released(idle), equals: .handOver(idle, to: 1))
        expect(pool.lease(3, 0).waits)
        pool.targets.unusable = [1]
        expect(pool.machine.released(idle), equals: .keep(idle))
        let connection = pool.connection(attempt)
        expect(pool.machine.connected(connection, streams: 1), equals: .handOver(connection, to: 2))
        pool.targets.unusable = []
        expect(pool.machine.next(for: connection), equals: .handOver(idle, to: 3))
        expect(pool.machine.next(for: connection), equals: .nothing)
    }

    @Test("A connection with fewer streams than expected is followed by one with the permit of an idle connection")
    func fewerButUnusable() throws {
        let pool = PoolFixture(max: 2, streams: 100)
        let idle = try pool.establishIdle(1)
        pool.targets.unusable = [1]
        let attempt = try require(pool.lease(1, 0, isFresh: true).attempt)
        let connection = pool.connection(attempt)
        // The idle connection was established with one stream.
        expect(pool.machine.expectedStreams, equals: 1)
        pool.machine.expectedStreams = 100
        expect(pool.lease(2, 0).waits)
        expect(pool.machine.connected(connection, streams: 1), equals: .handOver(connection, to: 1))
        guard case .close(idle, .connect(let next)) = pool.machine.next(for: connection) else {
            Issue.record("not replaced")
            return
        }
        pool.machine.begin(next, on: 0)
        expect(pool.machine.next(for: connection), equals: .nothing)
    }

    @Test("A failed attempt fails as many requests as it was expected to serve")
    func failed() throws {
        let pool = PoolFixture(max: 1, pending: 9, streams: 3)
        let attempt = try require(pool.lease(1).attempt)
        for waiter in 2...4 { expect(pool.lease(waiter).waits) }
        guard case .fail([1, 2, 3], .connect(let next)) = pool.machine.connectFailed(attempt, mayTryOther: false) else {
            Issue.record("the fourth request has no attempt")
            return
        }
        expect(pool.machine.connectFailed(next, mayTryOther: false), equals: .fail([4], .nothing))
    }

    @Test("More streams serve requests that wait, fewer streams end no lease")
    func room() throws {
        let connection = try pool.establish(1)
        for waiter in 2...5 { expect(pool.lease(waiter).waits) }
        expect(pool.machine.room(connection, leases: 1, further: 2), equals: .handOver(connection, to: 2))
        expect(pool.machine.next(for: connection), equals: .handOver(connection, to: 3))
        expect(pool.machine.next(for: connection), equals: .nothing)
        expect(pool.machine.room(connection, leases: 3, further: 0), equals: .nothing)
        expect(pool.machine.leasedCount, equals: 3)
        // A stream has ended, but the peer allows no further one.
        expect(pool.machine.room(connection, leases: 2, further: 0), equals: .nothing)
        expect(pool.machine.room(connection, leases: 2, further: -4), equals: .nothing)
        expect(pool.machine.leasedCount, equals: 2)
        expect(pool.machine.room(connection, leases: 1, further: 1), equals: .handOver(connection, to: 4))
        expect(pool.machine.room(connection, leases: 1, further: 1), equals: .handOver(connection, to: 5))
        expect(pool.machine.room(connection, leases: 0, further: 2), equals: .keep(connection))
        expect(pool.machine.room(connection, leases: 0, further: 3), equals: .nothing)
        expect(pool.machine.idleCount, equals: 1)
    }

    @Test("More streams of a connection to an unusable target serve no request")
    func roomUnusable() throws {
        let connection = try pool.establish(1)
        expect(pool.lease(2).waits)
        pool.targets.unusable = [0]
        expect(pool.machine.room(connection, leases: 1, further: 3), equals: .nothing)
        pool.targets.unusable = []
        expect(pool.machine.next(for: connection), equals: .handOver(connection, to: 2))
    }

    @Test("An idle connection without room is kept, and closed as soon as a request needs its permit")
    func noRoom() throws {
        let pool = PoolFixture(max: 2)
        let first = try pool.establish(1, 0)
        let second = try pool.establish(2, 1)
        expect(pool.machine.room(first, leases: 0, further: 0), equals: .keep(first))
        expect(pool.machine.idleCount, equals: 1)
        let action = pool.lease(3, 0)
        expect(action, equals: .waitAndReplace(try require(action.waiter), try require(action.attempt), close: first))
        expect(pool.lease(4, 0).waits)
        guard case .close(second, .connect) = pool.machine.room(second, leases: 0, further: 0) else {
            Issue.record("not replaced")
            return
        }
    }

    @Test("A connection reports further leases than the pool knows")
    func moreLeases() throws {
        let connection = try pool.establishIdle()
        expect(pool.machine.room(connection, leases: 2, further: 1), equals: .nothing)
        expect(pool.machine.idleCount, equals: 0)
        expect(pool.machine.leasedCount, equals: 2)
        expect(pool.lease(2), equals: .use(connection))
        expect(pool.lease(3).waits)
        expect(pool.machine.gone(connection).attempt != nil)
        expect(pool.machine.leasedCount, equals: 0)
    }

    @Test("After GOAWAY a connection serves no further request, is replaced if one waits, and closed when empty")
    func goAway() throws {
        let pool = PoolFixture(max: 2, streams: 2)
        let connection = try pool.establish(1, streams: 2)
        expect(pool.lease(2), equals: .use(connection))
        let other = try pool.establish(3, streams: 2)
        expect(pool.lease(4), equals: .use(other))
        expect(pool.lease(5).waits)
        expect(pool.machine.gone(other).attempt != nil)
        expect(pool.machine.retire(connection), equals: .nothing)
        expect(pool.machine.retire(connection), equals: .nothing)
        expect(pool.machine.room(connection, leases: 2, further: 100), equals: .nothing)
        expect(pool.machine.released(connection), equals: .nothing)
        expect(pool.machine.released(connection), equals: .close(connection, .nothing))
    }

    @Test("After GOAWAY a request that waits gets a new connection at once if there is a permit")
    func replacement() throws {
        let pool = PoolFixture(max: 2, pending: 40, loops: 2)
        let other = pool.other(1)
        let connection = try pool.establish(1)
        let taken = try other.establish(1)
        expect(pool.lease(2).waits)
        _ = other.machine.gone(taken)
        guard case .permit(.connect(let attempt)) = pool.machine.retire(connection) else {
            Issue.record("not replaced")
            return
        }
        pool.machine.begin(attempt, on: 0)
        let next = pool.connection(attempt)
        expect(pool.machine.connected(next), equals: .handOver(next, to: 2))
    }

    @Test("An HTTP/1.1 connection at the end of its lifetime is closed when it is released")
    func lifetime() throws {
        let connection = try pool.establish(1)
        expect(pool.lease(2).waits)
        expect(pool.machine.retire(connection), equals: .nothing)
        guard case .close(connection, .connect) = pool.machine.released(connection) else {
            Issue.record("not replaced")
            return
        }
        expect(pool.machine.connectionCount, equals: 1)
    }

    @Test("An idle connection is closed after GOAWAY")
    func idleGoAway() throws {
        let connection = try pool.establishIdle()
        expect(pool.machine.retire(connection), equals: .close(connection, .nothing))
        expect(pool.machine.connectionCount, equals: 0)
    }

    @Test("When a connection is lost, all its leases have ended")
    func lost() throws {
        let pool = PoolFixture(max: 1, streams: 3)
        let connection = try pool.establish(1, streams: 3)
        expect(pool.lease(2), equals: .use(connection))
        expect(pool.machine.gone(connection), equals: .nothing)
        expect(pool.machine.leasedCount, equals: 0)
        expect(pool.machine.connectionCount, equals: 0)
    }

    @Test("Only a connection without streams is closed to replace it by one to another target")
    func busyStays() throws {
        let pool = PoolFixture(max: 2, streams: 2)
        let idle = try pool.establish(1, 0, streams: 2)
        let busy = try pool.establish(2, 1, streams: 2)
        expect(pool.machine.released(idle), equals: .keep(idle))
        pool.targets.unusable = [0, 1]
        let action = pool.lease(3, 2)
        expect(action, equals: .waitAndReplace(try require(action.waiter), try require(action.attempt), close: idle))
        expect(pool.lease(4, 2).waits)
        pool.targets.unusable = [0]
        expect(pool.lease(5, 0), equals: .use(busy))
    }
}
