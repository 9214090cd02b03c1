import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Permits and targets of the pool")
struct UpstreamPoolPermitTests {
    /// Two loops with 4 permits: one guaranteed to each, two common ones, which the first loop uses.
    private static func twoLoops() throws -> (PoolFixture, PoolFixture, [PooledTestConnection]) {
        let pool = PoolFixture(max: 4, pending: 40, loops: 2)
        let connections = try (1...3).map { try pool.establish($0) }
        return (pool, pool.other(1), connections)
    }

    @Test("A loop has its guaranteed permits whatever the others use, and beyond them what is common")
    func guaranteed() throws {
        let (pool, other, _) = try Self.twoLoops()
        expect(pool.lease(4).waits)
        expect(other.lease(1).attempt != nil)
        expect(other.lease(2).waits)
    }

    @Test("A loop without a permit asks the others once; the oldest idle connection is closed, which wakes the loop")
    func starved() throws {
        let (pool, other, connections) = try Self.twoLoops()
        for index in [1, 0, 2] { expect(pool.machine.released(connections[index]), equals: .keep(connections[index])) }
        _ = try other.establish(1)
        guard case .wait(_, asksOthers: true) = other.lease(2), case .wait(_, asksOthers: false) = other.lease(3) else {
            Issue.record("must ask once")
            return
        }
        expect(other.connections.holders, equals: [0])
        expect(pool.machine.starved(), equals: .close(connections[1], .wake(loop: 1)))
        expect(pool.machine.connectionCount, equals: 2)
        let attempt = try require(other.machine.permitAvailable().attempt)
        other.machine.begin(attempt, on: 0)
        // Request 3 needs another one.
        expect(other.machine.permitAvailable(), equals: .askOthers)
        expect(pool.machine.starved(), equals: .close(connections[0], .wake(loop: 1)))
        // The guaranteed one stays.
        expect(pool.machine.starved(), equals: .nothing)
        expect(pool.machine.idleCount, equals: 1)
    }

    @Test("A loop that waits again asks again, even if it is still registered for a request that has left")
    func asksAgain() throws {
        let (pool, other, connections) = try Self.twoLoops()
        _ = try other.establish(1)
        let action = other.lease(2)
        other.machine.cancel(try require(action.waiter))
        let next = other.lease(3)
        expect(next, equals: .wait(try require(next.waiter), asksOthers: true))
        expect(pool.machine.released(connections[0]), equals: .keep(connections[0]))
        expect(pool.machine.starved(), equals: .close(connections[0], .wake(loop: 1)))
    }

    @Test("A loop that was asked while no connection was idle gives up the next one")
    func owed() throws {
        let (pool, other, connections) = try Self.twoLoops()
        _ = try other.establish(1)
        expect(other.lease(2).waits)
        expect(pool.machine.starved(), equals: .nothing)
        expect(pool.lease(9).waits)
        // A request of its own goes first.
        expect(pool.machine.released(connections[0]), equals: .handOver(connections[0], to: 9))
        expect(pool.machine.released(connections[0]), equals: .close(connections[0], .wake(loop: 1)))
        expect(other.machine.permitAvailable().attempt != nil)
        // No loop waits any more.
        expect(pool.machine.released(connections[1]), equals: .keep(connections[1]))
    }

    @Test(
        "A loop that begins to use common permits while another waits gives up an idle connection without being asked")
    func unasked() throws {
        let pool = PoolFixture(max: 6, pending: 60, loops: 3)
        let second = pool.other(1)
        let third = pool.other(2)
        let connections = try (1...4).map { try pool.establish($0) }
        let own = try second.establish(1)
        _ = try third.establish(1)
        expect(second.lease(2).waits)
        expect(third.lease(2).waits)
        expect(third.connections.holders, equals: [0])
        expect(pool.machine.gone(connections[0]), equals: .wake(loop: 1))
        let attempt = try require(second.machine.permitAvailable().attempt)
        second.machine.begin(attempt, on: 0)
        let connection = second.connection(attempt)
        expect(second.machine.connected(connection), equals: .handOver(connection, to: 2))
        expect(second.machine.released(connection), equals: .close(connection, .wake(loop: 2)))
        expect(third.machine.permitAvailable().attempt != nil)
        expect(second.machine.released(own), equals: .keep(own))
    }

    @Test("A permit that a closed connection returns wakes a loop that waits")
    func woken() throws {
        let (pool, other, connections) = try Self.twoLoops()
        _ = try other.establish(1)
        expect(other.lease(2).waits)
        expect(pool.machine.gone(connections[0]), equals: .wake(loop: 1))
        expect(other.machine.permitAvailable().attempt != nil)
        expect(other.machine.permitAvailable(), equals: .nothing)
        expect(pool.machine.gone(connections[1]), equals: .nothing)
    }

    @Test("A loop with idle connections takes no common permit while another waits, but that of an idle connection")
    func idleFirst() throws {
        let pool = PoolFixture(max: 4, pending: 40, loops: 2)
        let other = pool.other(1)
        let idle = try pool.establishIdle(1)
        pool.targets.unusable = [1]
        let connections = try (1...3).map { try other.establish($0) }
        expect(other.lease(4).waits)
        expect(other.machine.gone(connections[0]).attempt != nil)
        expect(other.machine.gone(connections[1]), equals: .nothing)
        expect(pool.connections.available, equals: 1)
        let action = pool.lease(1, 0)
        expect(action, equals: .waitAndReplace(try require(action.waiter), try require(action.attempt), close: idle))
    }

    @Test("A loop that is woken and needs nothing any more wakes the next one")
    func passedOn() throws {
        let pool = PoolFixture(max: 3, pending: 30, loops: 3)
        let second = pool.other(1)
        let third = pool.other(2)
        let connections = try (1...3).map { try pool.establish($0) }
        let waiter = try require(second.lease(1).waiter)
        expect(third.lease(1).waits)
        expect(pool.machine.gone(connections[0]), equals: .wake(loop: 1))
        second.machine.cancel(waiter)
        expect(second.machine.permitAvailable(), equals: .wake(loop: 2))
        expect(third.machine.permitAvailable().attempt != nil)
    }

    @Test("Connections to a target that vanished are closed: idle ones at once, leased ones when they are released")
    func vanished() throws {
        let pool = PoolFixture(max: 6)
        let idle = try pool.establishIdle(0)
        let kept = try pool.establishIdle(1)
        expect(pool.lease(1, 0), equals: .use(idle))
        let leased = try pool.establish(2, 0)
        expect(pool.machine.released(idle), equals: .keep(idle))
        let attempt = try require(pool.lease(3, 0, isFresh: true).attempt)
        // The target at index 1 moves to index 0, and a new one comes.
        expect(pool.machine.targetsChanged([1, -1]), equals: ClosedConnections(connections: [idle]))
        expect(pool.machine.permitAvailable(), equals: .nothing)
        let late = pool.connection(attempt, to: 0)
        guard case .close(late, .connect(let next)) = pool.machine.connected(late) else {
            Issue.record("the waiter has no attempt")
            return
        }
        expect(pool.machine.released(leased), equals: .close(leased, .nothing))
        pool.machine.begin(next, on: 1)
        let new = pool.connection(next, to: 3)
        expect(pool.machine.connected(new), equals: .handOver(new, to: 3))
        expect(pool.machine.released(new), equals: .keep(new))
        expect(pool.lease(4, 0), equals: .use(kept))
        expect(pool.lease(5, 1), equals: .use(new))
        expect(pool.lease(6, 2).attempt != nil)
    }

    @Test("A slot of a vanished target is used again only after its last connection has ended")
    func slots() throws {
        let pool = PoolFixture(max: 8, targets: 1)
        let leased = try pool.establish(1, 0)
        expect(pool.machine.targetsChanged([-1]), equals: ClosedConnections())
        let second = try pool.establish(2, 0)
        expect(pool.machine.released(second), equals: .keep(second))
        expect(pool.lease(3, 0), equals: .use(second))
        expect(pool.machine.released(leased), equals: .close(leased, .nothing))
        expect(pool.machine.targetsChanged([0, -1]), equals: ClosedConnections())
        expect(pool.machine.released(second), equals: .keep(second))
        expect(pool.lease(4, 1).attempt != nil)
        expect(pool.lease(5, 0), equals: .use(second))
    }

    @Test(
        "Two new targets with the same previous index, and previous indices that do not exist, get no connection of it")
    func wrongIndices() throws {
        let pool = PoolFixture(max: 8, targets: 1)
        let idle = try pool.establishIdle(0)
        expect(pool.machine.targetsChanged([7, 0, 0, -5]), equals: ClosedConnections())
        for target in [0, 2, 3] { expect(pool.lease(target, target).attempt != nil) }
        expect(pool.lease(9, 1), equals: .use(idle))
    }

    @Test("Closed connections of vanished targets wake loops that wait")
    func vanishedWakes() throws {
        let (pool, other, connections) = try Self.twoLoops()
        for connection in connections { expect(pool.machine.released(connection), equals: .keep(connection)) }
        _ = try other.establish(1)
        expect(other.lease(2).waits)
        let closed = pool.machine.targetsChanged([-1])
        expect(closed.connections.count, equals: 3)
        expect(closed.wakes, equals: [1])
        expect(other.machine.permitAvailable().attempt != nil)
    }
}
