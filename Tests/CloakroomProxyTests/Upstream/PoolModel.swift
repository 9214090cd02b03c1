import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

/// The pools of several event loops with common permits, driven by random events, next to a model of what each of them
/// must contain. Every action is carried out as the gateway would; messages between loops arrive later, in any order.
struct PoolModel {
    typealias Connection = PooledTestConnection
    typealias Machine = UpstreamPoolStateMachine<Connection, Int>

    enum Message: Equatable { case permitAvailable, starved }

    struct Member {
        var connection: Connection
        var used = 0
        var capacity: Int
        var isRetiring = false
    }

    struct Loop {
        var machine: Machine
        /// Identifiers of targets, by index.
        var targets: [Int]
        var open: [Member] = []
        var attempts: [(id: PooledConnectionID, target: Int)] = []
        var waiters: [(waiter: Int, id: WaiterID, since: UInt64, deadline: UInt64)] = []
        var isClosed = false
    }

    let seed: UInt64
    var generator: SeededGenerator
    let targets = PoolTargets()
    let connections: SharedPermits
    let places: SharedPermits
    let maximum: Int
    let maximumWaiting: Int
    let usesStreams: Bool
    let capsRequests: Bool
    var loops: [Loop] = []
    var messages: [(loop: Int, message: Message)] = []
    var now: UInt64 = 1_000_000_000
    var serial = 0
    var served = 0
    var failed = 0
    var expired = 0
    var rejected = 0

    init(seed: UInt64) {
        self.seed = seed
        generator = SeededGenerator(seed: seed)
        let loopCount = Int.random(in: 1...4, using: &generator)
        maximum = Int.random(in: 1...12, using: &generator)
        maximumWaiting = Int.random(in: 0...12, using: &generator)
        usesStreams = Bool.random(using: &generator)
        capsRequests = Int.random(in: 0..<4, using: &generator) == 0
        connections = SharedPermits(maximum: maximum, loops: loopCount)
        places = SharedPermits(maximum: maximumWaiting, loops: loopCount)
        let limits = PoolLimits(
            pendingTimeout: 2_000, congestedAfter: 200, congestedTimeout: 50,
            streams: usesStreams ? Int.random(in: 1...4, using: &generator) : 1)
        for loop in 0..<loopCount {
            let machine = Machine(limits, connections: connections, places: places, loop: loop, targets: 3)
            loops.append(Loop(machine: machine, targets: [0, 1, 2]))
        }
    }

    mutating func random(_ range: Range<Int>) -> Int { Int.random(in: range, using: &generator) }

    /// One random event on one loop.
    mutating func step() {
        now += UInt64(random(0..<20))
        let loop = random(0..<loops.count)
        switch random(0..<40) {
        case 0...11: lease(on: loop)
        case 12...17: finishAttempt(on: loop, succeeds: true)
        case 18, 19: finishAttempt(on: loop, succeeds: false)
        case 20...27: release(on: loop)
        case 28: lose(on: loop)
        case 29: cancel(on: loop)
        case 30: expire(on: loop)
        case 31: changeRoom(on: loop)
        case 32: retire(on: loop)
        case 33: changeTargets(on: loop)
        case 34: targets.unusable = random(0..<2) == 0 ? [] : [random(0..<5)]
        default: deliver()
        }
        check()
    }

    /// Ends everything that is in progress. Afterwards no request waits.
    mutating func settle() {
        targets.unusable = []
        for _ in 0..<2_000 {
            while !messages.isEmpty { deliver() }
            guard let loop = loops.indices.first(where: { !loops[$0].waiters.isEmpty || !loops[$0].attempts.isEmpty })
            else { break }
            poll(loop)
            for other in loops.indices {
                release(on: other)
                finishAttempt(on: other, succeeds: true)
            }
            check()
        }
        for loop in loops.indices {
            expect(loops[loop].waiters.isEmpty)
            expect(loops[loop].attempts.isEmpty)
        }
    }

    /// Closes all pools. Afterwards all permits have been returned.
    mutating func close() {
        for loop in loops.indices {
            loops[loop].isClosed = true
            let closed = loops[loop].machine.close()
            for connection in closed.connections { remove(connection, on: loop) }
            while loops[loop].open.contains(where: { $0.used > 0 }) { release(on: loop) }
            check()
            expect(loops[loop].open.isEmpty)
            expect(loops[loop].machine.permits.count == 0)
        }
        expect(connections.available == maximum - connections.guaranteed * loops.count)
        expect(places.available == maximumWaiting - places.guaranteed * loops.count)
    }

    /// `#expect`, which takes much longer, only if it fails.
    func expect(_ condition: @autoclosure () -> Bool, location: SourceLocation = #_sourceLocation) {
        if !condition() { Issue.record("seed \(seed)", sourceLocation: location) }
    }

    /// What must be true after each event.
    func check() {
        var count = 0
        for loop in loops {
            let machine = loop.machine
            expect(machine.connectionCount == loop.open.count + loop.attempts.count)
            expect(machine.permits.count == machine.connectionCount)
            expect(machine.connectingCount == loop.attempts.count)
            expect(machine.leasedCount == loop.open.reduce(0) { $0 + $1.used })
            expect(machine.idleCount == loop.open.count { $0.used == 0 })
            expect(machine.waitingCount == loop.waiters.count)
            let isWaiting = machine.unserved > 0 && !machine.isHeld
            // What is idle would serve a waiter, or give its permit to one.
            if isWaiting { expect(machine.idleCount == 0) }
            if messages.isEmpty && isWaiting { expect(connections.available == 0) }
            count += machine.connectionCount
        }
        expect(count <= maximum)
        guard messages.isEmpty, loops.contains(where: { $0.machine.unserved > 0 && !$0.machine.isHeld }) else { return }
        // No loop keeps an idle connection that another one needs.
        for loop in loops where loop.machine.unserved <= 0 && loop.machine.permits.isBeyondGuarantee {
            expect(loop.machine.idleCount == 0)
        }
    }
}
