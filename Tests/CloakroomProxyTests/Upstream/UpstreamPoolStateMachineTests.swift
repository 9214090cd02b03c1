import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Assignment of connections to exchanges")
struct UpstreamPoolStateMachineTests {
    private typealias Pool = UpstreamPoolStateMachine<Int, Int>

    @Test("The first exchange opens a connection, and a returned connection is reused")
    func reuse() {
        var pool = Pool(capacity: 2, maxWaiting: 2)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.connected(10) == .handOver(10, to: 1))
        #expect(pool.release(10) == .keep(10))
        #expect(pool.lease(2) == .use(10))
        #expect(pool.leased == 1)
        #expect(pool.idle.isEmpty)
    }

    @Test("The most recently used connection is used first")
    func lastInFirstOut() {
        var pool = Pool(capacity: 2, maxWaiting: 0)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.lease(2) == .waitAndConnect)
        #expect(pool.connected(10) == .handOver(10, to: 1))
        #expect(pool.connected(11) == .handOver(11, to: 2))
        #expect(pool.release(11) == .keep(11))
        #expect(pool.release(10) == .keep(10))
        #expect(pool.lease(3) == .use(10))
        #expect(pool.lease(4) == .use(11))
    }

    @Test("At capacity exchanges wait in order, and one beyond the queue limit is rejected")
    func waiting() {
        var pool = Pool(capacity: 1, maxWaiting: 2)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.connected(10) == .handOver(10, to: 1))
        #expect(pool.lease(2) == .wait)
        #expect(pool.lease(3) == .wait)
        #expect(pool.lease(4) == .reject)
        #expect(pool.release(10) == .handOver(10, to: 2))
        #expect(pool.release(10) == .handOver(10, to: 3))
        #expect(pool.release(10) == .keep(10))
    }

    @Test("Exchanges with a connection attempt of their own do not count as waiting")
    func connectingIsNotWaiting() {
        var pool = Pool(capacity: 2, maxWaiting: 0)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.lease(2) == .waitAndConnect)
        #expect(pool.lease(3) == .reject)
    }

    @Test("A lost connection is replaced if an exchange is waiting")
    func discardWithWaiter() {
        var pool = Pool(capacity: 1, maxWaiting: 1)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.connected(10) == .handOver(10, to: 1))
        #expect(pool.lease(2) == .wait)
        #expect(pool.discardLeased() == true)
        #expect(pool.connected(11) == .handOver(11, to: 2))
        #expect(pool.discardLeased() == false)
    }

    @Test("A failed connection attempt fails the exchange that has waited longest; the others get a new attempt")
    func connectFails() {
        var pool = Pool(capacity: 1, maxWaiting: 2)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.lease(2) == .wait)
        #expect(pool.connectFailed() == .fail(1))
        #expect(pool.connectIfNeeded() == true)
        #expect(pool.connected(10) == .handOver(10, to: 2))
    }

    @Test("An exchange that left the queue is not served, and the connection is kept")
    func cancelled() {
        var pool = Pool(capacity: 1, maxWaiting: 1)
        #expect(pool.lease(1) == .waitAndConnect)
        pool.cancel(1)
        #expect(pool.connected(10) == .keep(10))
        #expect(pool.lease(2) == .use(10))
    }

    @Test("A retry does not take an idle connection")
    func fresh() {
        var pool = Pool(capacity: 2, maxWaiting: 0)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.connected(10) == .handOver(10, to: 1))
        #expect(pool.release(10) == .keep(10))
        #expect(pool.lease(2, isFresh: true) == .waitAndConnect)
        #expect(pool.connected(11) == .handOver(11, to: 2))
        #expect(pool.idle == [10])
    }

    @Test("Idle connections are removed one by one or all together")
    func idleLeave() {
        var pool = Pool(capacity: 2, maxWaiting: 0)
        for waiter in 1...2 {
            #expect(pool.lease(waiter) == .waitAndConnect)
            pool.cancel(waiter)
        }
        #expect(pool.connected(10) == .keep(10))
        #expect(pool.connected(11) == .keep(11))
        pool.discardIdle(10)
        #expect(pool.idle == [11])
        #expect(pool.takeIdle() == [11])
        #expect(pool.takeIdle() == [])
    }

    @Test("A failed connection attempt fails no exchange if all have left the queue")
    func connectFailsUnneeded() {
        var pool = Pool(capacity: 1, maxWaiting: 1)
        #expect(pool.lease(1) == .waitAndConnect)
        pool.cancel(1)
        #expect(pool.connectFailed() == .noWaiter)
        #expect(pool.connectIfNeeded() == false)
        #expect(pool.connecting == 0)
    }

    @Test("A pool has room for one connection, and a queue is never negative")
    func limits() {
        var pool = Pool(capacity: 0, maxWaiting: -1)
        #expect(pool.lease(1) == .waitAndConnect)
        #expect(pool.lease(2) == .reject)
    }

    @Test("An event that is not possible is an assertion in debug builds")
    func impossible() async {
        await #expect(processExitsWith: .failure) {
            var pool = UpstreamPoolStateMachine<Int, Int>(capacity: 1, maxWaiting: 1)
            _ = pool.discardLeased()
        }
    }

    @Test("In any sequence of events no exchange is lost or served twice, and the capacity is respected")
    func randomEvents() {
        for seed in 1...150 as ClosedRange<UInt64> {
            var model = PoolModel(seed: seed)
            for _ in 0..<200 { model.step() }
            model.settle()
        }
    }
}

/// A pool together with a model of the expected state.
private struct PoolModel {
    private var generator: SeededGenerator
    private var pool: UpstreamPoolStateMachine<Int, Int>
    private let capacity: Int
    private var waiting: [Int] = []
    private var leased: Set<Int> = []
    private var idle: Set<Int> = []
    private var connecting = 0
    private var next = 0
    /// The number of connections allowed above the capacity: one for each idle connection that a retry bypassed.
    private var allowance = 0

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
        capacity = Int.random(in: 1...4, using: &generator)
        pool = .init(capacity: capacity, maxWaiting: Int.random(in: 0...4, using: &generator))
    }

    mutating func step() {
        switch Int.random(in: 0..<12, using: &generator) {
        case 0...3: lease(isFresh: Int.random(in: 0..<8, using: &generator) == 0)
        case 4, 5: connected()
        case 6: connectFailed()
        case 7, 8: release()
        case 9:
            guard leased.popFirst() != nil else { return }
            if pool.discardLeased() { connecting += 1 }
        case 10:
            if let connection = idle.popFirst() { pool.discardIdle(connection) }
        default:
            guard let waiter = waiting.randomElement(using: &generator) else { return }
            waiting.removeAll { $0 == waiter }
            pool.cancel(waiter)
        }
        check()
    }

    /// Completes all leases and connection attempts: afterwards no exchange waits.
    mutating func settle() {
        while connecting > 0 || !leased.isEmpty {
            if connecting > 0 { connected() } else { release() }
            check()
        }
        #expect(waiting.isEmpty)
    }

    private mutating func lease(isFresh: Bool) {
        next += 1
        if isFresh { allowance += idle.count }
        switch pool.lease(next, isFresh: isFresh) {
        case .use(let connection):
            #expect(!isFresh)
            #expect(idle.remove(connection) != nil)
            leased.insert(connection)
        case .waitAndConnect:
            waiting.append(next)
            connecting += 1
        case .wait: waiting.append(next)
        case .reject: #expect(leased.count + connecting >= capacity)
        }
    }

    private mutating func connected() {
        guard connecting > 0 else { return }
        connecting -= 1
        next += 1
        available(next, pool.connected(next))
    }

    private mutating func release() {
        guard let connection = leased.popFirst() else { return }
        available(connection, pool.release(connection))
    }

    private mutating func connectFailed() {
        guard connecting > 0 else { return }
        connecting -= 1
        switch pool.connectFailed() {
        case .fail(let waiter):
            #expect(waiting.first == waiter)
            waiting.removeFirst()
        case .noWaiter: #expect(waiting.isEmpty)
        }
        if pool.connectIfNeeded() { connecting += 1 }
    }

    private mutating func available(
        _ connection: Int, _ action: UpstreamPoolStateMachine<Int, Int>.AvailabilityAction
    ) {
        switch action {
        case .handOver(let handed, let waiter):
            #expect(handed == connection)
            #expect(waiting.first == waiter)
            waiting.removeFirst()
            leased.insert(handed)
        case .keep(let kept):
            #expect(kept == connection)
            #expect(waiting.isEmpty)
            idle.insert(kept)
        }
    }

    private func check() {
        #expect(pool.leased == leased.count)
        #expect(pool.connecting == connecting)
        #expect(Set(pool.idle) == idle)
        #expect(idle.isDisjoint(with: leased))
        #expect(Array(pool.waiting) == waiting)
        #expect(leased.count + connecting + idle.count <= capacity + allowance)
        if allowance == 0 { #expect(leased.count + connecting <= capacity) }
        // If exchanges wait, a leased connection or an attempt exists that can serve them.
        if !waiting.isEmpty { #expect(leased.count + connecting > 0) }
    }
}
