import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Assignment of connections to requests")
struct UpstreamPoolStateMachineTests {
    private let pool = PoolFixture()

    @Test("The first request opens a connection, and a returned connection is reused")
    func reuse() throws {
        let connection = try pool.establish(1)
        expect(pool.machine.leasedCount, equals: 1)
        expect(pool.machine.released(connection), equals: .keep(connection))
        expect(pool.machine.idleCount, equals: 1)
        expect(pool.machine.leasedCount, equals: 0)
        expect(pool.lease(2), equals: .use(connection))
        expect(pool.machine.idleCount, equals: 0)
        expect(pool.machine.leasedCount, equals: 1)
        expect(pool.machine.connectionCount, equals: 1)
    }

    @Test("Of the idle connections to a target the one used last is used first")
    func lastInFirstOut() throws {
        let connections = try (1...3).map { try pool.establish($0) }
        for index in [1, 0, 2] { expect(pool.machine.released(connections[index]), equals: .keep(connections[index])) }
        for index in [2, 0, 1] { expect(pool.lease(9), equals: .use(connections[index])) }
    }

    @Test("A request uses an idle connection to the selected target, or connects to it, though another has idle ones")
    func byTarget() throws {
        let first = try pool.establishIdle(0)
        let second = try pool.establishIdle(1)
        expect(pool.lease(1, 1), equals: .use(second))
        expect(pool.lease(2, 2, second: 0).attempt != nil)
        expect(pool.lease(3, 0), equals: .use(first))
    }

    @Test("An idle connection to the second choice is used if the costs are close")
    func close() throws {
        let connection = try pool.establishIdle(1)
        expect(pool.lease(1, 0, second: 1, isClose: true), equals: .use(connection))
        let first = try pool.establishIdle(0)
        expect(pool.machine.released(connection), equals: .keep(connection))
        expect(pool.lease(2, 0, second: 1, isClose: true), equals: .use(first))
    }

    @Test("Without a permit the second choice is used though it costs more, then any usable target in turn")
    func withoutPermit() throws {
        let pool = PoolFixture(max: 2)
        let second = try pool.establishIdle(1)
        let third = try pool.establishIdle(2)
        expect(pool.lease(1, 0, second: 2), equals: .use(third))
        expect(pool.targets.reads, equals: 0)
        expect(pool.lease(2, 0, second: 2), equals: .use(second))
        expect(pool.lease(3, 0, second: 2).waits)
    }

    @Test("Without a permit an idle connection to an unusable target gives its permit to a new connection")
    func replaceUnusable() throws {
        let pool = PoolFixture(max: 2)
        let old = try pool.establishIdle(1)
        let young = try pool.establishIdle(2)
        pool.targets.unusable = [1, 2]
        let action = pool.lease(1, 0)
        let attempt = try require(action.attempt)
        expect(action, equals: .waitAndReplace(try require(action.waiter), attempt, close: old))
        expect(pool.machine.connectionCount, equals: 2)
        expect(pool.machine.gone(old), equals: .nothing)
        let connection = pool.connection(attempt)
        expect(pool.machine.connected(connection), equals: .handOver(connection, to: 1))
        expect(pool.lease(2, 2), equals: .use(young))
    }

    @Test("A repeated request takes no idle connection, not even without a permit")
    func fresh() throws {
        let pool = PoolFixture(max: 2)
        let idle = try pool.establishIdle()
        let other = try require(pool.lease(1, isFresh: true).attempt)
        let connection = pool.connection(other)
        expect(pool.machine.connected(connection), equals: .handOver(connection, to: 1))
        expect(pool.machine.idleCount, equals: 1)
        let action = pool.lease(2, isFresh: true)
        expect(action, equals: .waitAndReplace(try require(action.waiter), try require(action.attempt), close: idle))
        // What becomes free was used until now.
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 2))
    }

    @Test("At capacity requests wait in order, and one beyond the queue limit is rejected")
    func waiting() throws {
        let pool = PoolFixture(max: 1, pending: 2)
        let connection = try pool.establish(1)
        expect(pool.lease(2).waits)
        expect(pool.lease(3, 1).waits)
        expect(pool.lease(4), equals: .rejectQueueFull)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 2))
        expect(pool.lease(5).waits)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 3))
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 5))
        expect(pool.machine.released(connection), equals: .keep(connection))
    }

    @Test("Requests with a connection attempt of their own need no place in the queue")
    func connectingIsNotWaiting() {
        let pool = PoolFixture(max: 2, pending: 0)
        expect(pool.lease(1).attempt != nil)
        expect(pool.lease(2).attempt != nil)
        expect(pool.lease(3), equals: .rejectQueueFull)
        expect(pool.machine.waitingCount, equals: 2)
    }

    @Test("A connection that becomes free serves the longest waiting request, whatever target was selected for it")
    func anyTarget() throws {
        let pool = PoolFixture(max: 2)
        let connection = try pool.establish(1, 0)
        let attempt = try require(pool.lease(2, 1).attempt)
        expect(pool.lease(3, 2).waits)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 2))
        let other = pool.connection(attempt, to: 1)
        expect(pool.machine.connected(other), equals: .handOver(other, to: 3))
    }

    @Test("A connection to a target that is no longer usable serves no waiter: its permit serves it")
    func unusableReleased() throws {
        let pool = PoolFixture(max: 1)
        let connection = try pool.establish(1, 0)
        expect(pool.lease(2, 0).waits)
        pool.targets.unusable = [0]
        guard case .close(connection, .connect(let attempt)) = pool.machine.released(connection) else {
            Issue.record("not replaced")
            return
        }
        pool.machine.begin(attempt, on: 1)
        let other = pool.connection(attempt, to: 1)
        expect(pool.machine.connected(other), equals: .handOver(other, to: 2))
    }

    @Test("A connection to an unusable target stays if an attempt is expected to serve the waiter")
    func unusableKept() throws {
        let pool = PoolFixture(max: 2)
        let connection = try pool.establish(1, 0)
        expect(pool.lease(2, 1).attempt != nil)
        pool.targets.unusable = [0]
        expect(pool.machine.released(connection), equals: .keep(connection))
    }

    @Test("A new connection serves a waiter though its target is not usable, because it may be a probe")
    func probe() throws {
        pool.targets.unusable = [0]
        _ = try pool.establish(1)
    }

    @Test("Usability is not read while permits are available and no request waits")
    func noReads() throws {
        let connection = try pool.establishIdle()
        for waiter in 1...10 {
            expect(pool.lease(waiter), equals: .use(connection))
            expect(pool.machine.released(connection), equals: .keep(connection))
        }
        expect(pool.targets.reads, equals: 0)
    }

    @Test("Events of connections that the pool no longer knows have no effect")
    func late() throws {
        let pool = PoolFixture(max: 1)
        let connection = try pool.establishIdle()
        expect(pool.machine.gone(connection), equals: .nothing)
        expect(pool.machine.connectionCount, equals: 0)
        // Its entry is used again.
        let next = try pool.establish(2)
        expect(next.poolID.index, equals: connection.poolID.index)
        expect(pool.machine.gone(connection), equals: .nothing)
        expect(pool.machine.retire(connection), equals: .nothing)
        expect(pool.machine.room(connection, leases: 1, further: 4), equals: .nothing)
        expect(pool.machine.released(connection), equals: .close(connection, .nothing))
        expect(pool.machine.connected(connection), equals: .close(connection, .nothing))
        expect(pool.machine.connectFailed(connection.poolID, mayTryOther: true), equals: .fail([], .nothing))
        expect(pool.machine.leasedCount, equals: 1)
        expect(pool.machine.released(next), equals: .keep(next))
    }

    @Test("A second release of the same lease is an assertion in debug builds")
    func impossible() async {
        await #expect(processExitsWith: .failure) {
            let pool = PoolFixture()
            guard let connection = try? pool.establishIdle() else { return }
            _ = pool.machine.released(connection)
        }
    }

    @Test("A target that does not exist is connected to by nothing, and does not trap")
    func noSuchTarget() throws {
        let pool = PoolFixture(targets: 1)
        let attempt = try require(pool.lease(1, 7, second: 9, isClose: true).attempt)
        expect(pool.machine.connected(pool.connection(attempt)) != .nothing)
        expect(pool.machine.leasedCount, equals: 0)
    }

    @Test("A closed pool closes idle connections at once and leased ones when they are released and no request waits")
    func closed() throws {
        let pool = PoolFixture(max: 3)
        let idle = try pool.establishIdle()
        expect(pool.lease(1), equals: .use(idle))
        let leased = try pool.establish(2)
        expect(pool.machine.released(idle), equals: .keep(idle))
        expect(pool.machine.close(), equals: ClosedConnections(connections: [idle]))
        let attempt = try require(pool.lease(3, 1).attempt)
        expect(pool.machine.released(leased), equals: .handOver(leased, to: 3))
        expect(pool.machine.released(leased), equals: .close(leased, .nothing))
        let late = pool.connection(attempt, to: 1)
        expect(pool.machine.connected(late), equals: .close(late, .nothing))
        expect(pool.machine.connectionCount, equals: 0)
        expect(pool.connections.available, equals: 2)
    }
}
