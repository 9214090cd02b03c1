import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomProxy

/// Targets whose usability a test changes.
final class PoolTargets {
    var unusable: Set<Int> = []
    /// How often the usability of a target was read.
    var reads = 0
}

final class PooledTestConnection: PooledConnection, Equatable, CustomStringConvertible {
    let poolID: PooledConnectionID
    let target: Int
    private let targets: PoolTargets

    init(_ id: PooledConnectionID, target: Int, targets: PoolTargets = PoolTargets()) {
        poolID = id
        self.target = target
        self.targets = targets
    }

    var isTargetUsable: Bool {
        targets.reads += 1
        return !targets.unusable.contains(target)
    }

    var description: String { "connection \(poolID.index) to target \(target)" }

    static func == (left: PooledTestConnection, right: PooledTestConnection) -> Bool { left === right }
}

/// A pool of one event loop, with abbreviations for scripts of events. Times are in milliseconds.
final class PoolFixture {
    typealias Machine = UpstreamPoolStateMachine<PooledTestConnection, Int>

    var machine: Machine
    let targets = PoolTargets()
    let connections: SharedPermits
    let places: SharedPermits

    /// - Parameter loops: With more than one, ``other(_:)`` creates the pools of the other loops.
    init(
        max: Int = 4, pending: Int = 4, loops: Int = 1, targets: Int = 3, pendingTimeout: UInt64 = 10_000,
        streams: Int = 1, connectTargets: Int = 3
    ) {
        connections = SharedPermits(maximum: max, loops: loops)
        places = SharedPermits(maximum: pending, loops: loops)
        machine = Machine(
            PoolLimits(
                pendingTimeout: pendingTimeout * 1_000_000, congestedAfter: 500_000_000, congestedTimeout: 50_000_000,
                streams: streams, targets: connectTargets),
            connections: connections, places: places, loop: 0, targets: targets)
    }

    private init(_ machine: Machine, connections: SharedPermits, places: SharedPermits) {
        self.machine = machine
        self.connections = connections
        self.places = places
    }

    /// The pool of another loop with the same permits.
    func other(_ loop: Int) -> PoolFixture {
        PoolFixture(
            Machine(machine.limits, connections: connections, places: places, loop: loop, targets: 3),
            connections: connections, places: places)
    }

    func lease(
        _ waiter: Int, _ first: Int = 0, second: Int = -1, isClose: Bool = false, isFresh: Bool = false,
        at time: UInt64 = 0, deadline: UInt64? = nil
    ) -> Machine.LeaseAction {
        machine.lease(
            waiter, TargetPicker.Choice(first: first, second: second, isClose: isClose), isFresh: isFresh,
            now: time * 1_000_000, deadline: deadline.map { $0 * 1_000_000 } ?? .max)
    }

    func establish(_ waiter: Int, _ target: Int = 0, streams: Int = 1) throws -> PooledTestConnection {
        let connection = connection(try require(lease(waiter, target).attempt), to: target)
        try require(machine.connected(connection, streams: streams) == .handOver(connection, to: waiter))
        return connection
    }

    func establishIdle(_ target: Int = 0) throws -> PooledTestConnection {
        let connection = try establish(-1, target)
        try require(machine.released(connection) == .keep(connection))
        return connection
    }

    func connection(_ id: PooledConnectionID, to target: Int = 0) -> PooledTestConnection {
        PooledTestConnection(id, target: target, targets: targets)
    }

    /// All waiters that are rejected at a time.
    func expire(at time: UInt64) -> [ExpiredWaiter<Int>] {
        var expired: [ExpiredWaiter<Int>] = []
        while let next = machine.expire(now: time * 1_000_000) { expired.append(next) }
        return expired
    }
}

extension PoolLeaseAction {
    /// The attempt that begins, if any.
    var attempt: PooledConnectionID? {
        switch self {
        case .waitAndConnect(_, let id), .waitAndReplace(_, let id, close: _): id
        default: nil
        }
    }

    /// The waiter in the queue.
    var waiter: WaiterID? {
        switch self {
        case .waitAndConnect(let id, _), .waitAndReplace(let id, _, close: _), .wait(let id, asksOthers: _): id
        default: nil
        }
    }

    /// Whether the request waits without an attempt.
    var waits: Bool { if case .wait = self { true } else { false } }
}

extension PermitAction {
    var attempt: PooledConnectionID? { if case .connect(let id) = self { id } else { nil } }
}
