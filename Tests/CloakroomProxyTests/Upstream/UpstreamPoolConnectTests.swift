import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Connection attempts of the pool")
struct UpstreamPoolConnectTests {
    private let pool = PoolFixture()

    @Test("A lost connection is replaced if a request waits, with the same permit")
    func replaced() throws {
        let pool = PoolFixture(max: 1)
        let connection = try pool.establish(1)
        expect(pool.lease(2).waits)
        let attempt = try require(pool.machine.gone(connection).attempt)
        expect(pool.machine.connectionCount, equals: 1)
        pool.machine.begin(attempt, on: 1)
        let next = pool.connection(attempt, to: 1)
        expect(pool.machine.connected(next), equals: .handOver(next, to: 2))
        expect(pool.machine.gone(next), equals: .nothing)
        expect(pool.connections.available, equals: 1)
    }

    @Test("A failed attempt tries at most three targets, then fails the request that has waited longest")
    func threeTargets() throws {
        let pool = PoolFixture(max: 1)
        let attempt = try require(pool.lease(1, 0).attempt)
        expect(pool.lease(2, 0).waits)
        expect(pool.machine.connectFailed(attempt, mayTryOther: true), equals: .connectOther(attempt))
        pool.machine.begin(attempt, on: 1)
        expect(pool.machine.connectFailed(attempt, mayTryOther: true), equals: .connectOther(attempt))
        pool.machine.begin(attempt, on: 2)
        guard case .fail([1], .connect(let next)) = pool.machine.connectFailed(attempt, mayTryOther: true) else {
            Issue.record("the next waiter has no attempt")
            return
        }
        pool.machine.begin(next, on: 0)
        let connection = pool.connection(next)
        expect(pool.machine.connected(connection), equals: .handOver(connection, to: 2))
    }

    @Test("A failed attempt tries as many targets as the limit permits", arguments: 1...4)
    func limit(count: Int) throws {
        let pool = PoolFixture(connectTargets: count)
        let attempt = try require(pool.lease(1, 0).attempt)
        for _ in 1..<count {
            expect(pool.machine.oldestWaiter, equals: 1)
            expect(pool.machine.connectFailed(attempt, mayTryOther: true), equals: .connectOther(attempt))
            pool.machine.begin(attempt, on: 1)
        }
        expect(pool.machine.connectFailed(attempt, mayTryOther: true), equals: .fail([1], .nothing))
        expect(pool.machine.oldestWaiter, equals: nil)
    }

    @Test(
        "Of several requests that an attempt is expected to serve, one can fail alone; another attempt serves the others"
    )
    func failsAlone() throws {
        let pool = PoolFixture(streams: 2)
        let attempt = try require(pool.lease(1, 0).attempt)
        expect(pool.lease(2, 0).waits)
        guard case .fail([1], .connect) = pool.machine.connectFailed(attempt, mayTryOther: false, failing: 1) else {
            Issue.record("the other request has no attempt")
            return
        }
        expect(pool.machine.waitingCount, equals: 1)
    }

    @Test("A failed attempt fails a request at once if no other target can be selected")
    func noOther() throws {
        let attempt = try require(pool.lease(1).attempt)
        expect(pool.machine.connectFailed(attempt, mayTryOther: false), equals: .fail([1], .nothing))
        expect(pool.machine.connectingCount, equals: 0)
        expect(pool.machine.waitingCount, equals: 0)
        expect(pool.connections.available + pool.connections.guaranteed, equals: 4)
        // The permit is available again.
        for waiter in 2...5 { expect(pool.lease(waiter).attempt != nil) }
        expect(pool.lease(6).waits)
    }

    @Test("A failed attempt fails no request that another attempt is expected to serve")
    func notNeeded() throws {
        let first = pool.lease(1)
        let second = try require(pool.lease(2, 1).attempt)
        pool.machine.cancel(try require(first.waiter))
        expect(pool.machine.connectFailed(try require(first.attempt), mayTryOther: true), equals: .fail([], .nothing))
        expect(pool.machine.connectFailed(second, mayTryOther: false), equals: .fail([2], .nothing))
    }

    @Test("A failed attempt fails no request if all have left")
    func unneeded() throws {
        let action = pool.lease(1)
        pool.machine.cancel(try require(action.waiter))
        expect(pool.machine.connectFailed(try require(action.attempt), mayTryOther: true), equals: .fail([], .nothing))
    }

    @Test("An attempt whose request has left serves the next one for the same target")
    func orphan() throws {
        let action = pool.lease(1, 1)
        pool.machine.cancel(try require(action.waiter))
        expect(pool.lease(2, 1).waits)
        expect(pool.lease(3, 0).attempt != nil)
        expect(pool.lease(4, 1).attempt != nil)
        let connection = pool.connection(try require(action.attempt), to: 1)
        expect(pool.machine.connected(connection), equals: .handOver(connection, to: 2))
    }

    @Test("A connection that no request needs any more is kept")
    func kept() throws {
        let action = pool.lease(1)
        pool.machine.cancel(try require(action.waiter))
        let connection = pool.connection(try require(action.attempt))
        expect(pool.machine.connected(connection), equals: .keep(connection))
        expect(pool.lease(2), equals: .use(connection))
    }

    @Test("At the limit of requests in flight requests wait though connections are idle, in order")
    func held() throws {
        let pool = PoolFixture(pending: 3)
        let connection = try pool.establishIdle()
        expect(pool.machine.hold(1, now: 0).waits)
        expect(pool.machine.isHeld)
        expect(pool.lease(2).waits)
        expect(pool.lease(3).waits)
        expect(pool.lease(4), equals: .rejectQueueFull)
        expect(pool.machine.serve(TargetPicker.Choice(first: 1)), equals: .nothing)
        expect(pool.machine.serve(TargetPicker.Choice(first: 1, second: 0)), equals: .handOver(connection, to: 1))
        let attempt = try require(pool.machine.permitAvailable().attempt)
        expect(pool.machine.abandon(attempt), equals: .nothing)
        expect(pool.machine.isHeld)
        expect(pool.machine.waitingCount, equals: 2)
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 2))
        expect(pool.machine.released(connection), equals: .handOver(connection, to: 3))
        expect(!pool.machine.isHeld)
        expect(pool.machine.released(connection), equals: .keep(connection))
        expect(pool.machine.serve(TargetPicker.Choice(first: 0)), equals: .nothing)
        expect(pool.lease(5), equals: .use(connection))
    }

    @Test("An attempt that is abandoned fails no request and returns its permit")
    func abandoned() throws {
        let pool = PoolFixture(max: 1)
        let connection = try pool.establish(1)
        expect(pool.lease(2).waits)
        let attempt = try require(pool.machine.gone(connection).attempt)
        expect(pool.machine.abandon(attempt), equals: .nothing)
        expect(pool.machine.isHeld)
        expect(pool.machine.connectionCount, equals: 0)
        let next = try require(pool.machine.permitAvailable().attempt)
        expect(!pool.machine.isHeld)
        expect(pool.machine.permitAvailable(), equals: .nothing)
        expect(pool.machine.connectFailed(next, mayTryOther: false), equals: .fail([2], .nothing))
    }
}
