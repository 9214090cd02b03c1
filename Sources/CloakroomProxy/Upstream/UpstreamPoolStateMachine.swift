package import CloakroomCore

/// Assigns the connections of one event loop to one upstream to requests: one method for each event, one action as its
/// result, no socket and no clock.
///
/// The caller selects targets; the state machine decides by available connections and by permits, which the event loops
/// share. Connections are reused last-in first-out for each target. Waiters are bound to no target: a connection that
/// becomes free serves the one that has waited longest.
///
/// HTTP/1.1 connections have room for one lease, HTTP/2 connections for several. An event of a connection, an attempt or
/// a waiter that the pool no longer knows has no effect.
///
/// - Connection: An established connection.
/// - Waiter: A request that waits for one.
package struct UpstreamPoolStateMachine<Connection: PooledConnection, Waiter> {
    /// What to do with a request that needs a connection.
    package typealias LeaseAction = PoolLeaseAction<Connection>
    /// What to do with a connection that has room for a lease.
    package typealias ConnectionAction = PooledConnectionAction<Connection, Waiter>

    var table: PooledConnectionTable<Connection>
    var queue = WaitQueue<Waiter>()
    var permits: PermitLedger
    /// Places in the queue for waiters that no attempt is expected to serve.
    var places: PermitLedger
    let limits: PoolLimits
    /// Number of leases that a connection attempt is expected to allow.
    var expectedStreams: Int
    /// When waiters were first found that no attempt is expected to serve, without a pause since; `nil` if there is
    /// none.
    var queuedSince: UInt64?
    /// Whether waiters wait because of a limit of requests in flight. Then connections may be idle, and permits available.
    package internal(set) var isHeld = false
    /// Whether other event loops were asked for a permit since the queue has waiters that no attempt is expected to serve.
    var hasAsked = false
    /// Whether another event loop may wait for a permit that this one should give up.
    var owesPermit = false
    private var isClosed = false

    /// - Parameters:
    ///   - connections: Permits for connections.
    ///   - places: Permits for places in the queue.
    ///   - loop: Index of the event loop.
    ///   - targets: Number of targets. They are referred to by index.
    package init(
        _ limits: PoolLimits, connections: SharedPermits, places: SharedPermits, loop: Int, targets: Int
    ) {
        self.limits = limits
        expectedStreams = max(limits.streams, 1)
        permits = PermitLedger(connections, loop: loop)
        self.places = PermitLedger(places, loop: loop)
        table = PooledConnectionTable(targets: targets)
    }

    /// Number of established connections without a lease.
    package var idleCount: Int { table.idle }
    /// Number of leases: requests on HTTP/1.1 connections, streams of HTTP/2 connections.
    package var leasedCount: Int { table.leased }
    /// Number of connection attempts in progress.
    package var connectingCount: Int { table.connecting }
    /// Number of connections, with those being established.
    package var connectionCount: Int { table.count }
    /// Number of waiters in the queue.
    package var waitingCount: Int { queue.count }
    /// The waiter that is served next.
    package var oldestWaiter: Waiter? { queue.first }

    // MARK: - Requests

    /// Requests a connection.
    /// - Parameters:
    ///   - choice: The targets selected for the request, as indices of the current list of targets.
    ///   - isFresh: Whether it must not be an idle connection, because one was just found closed.
    ///   - now: Time in nanoseconds of a monotonic clock; likewise below.
    ///   - deadline: Time until which the waiter may wait; `.max` for none.
    @inline(__always)
    package mutating func lease(
        _ waiter: Waiter, _ choice: TargetPicker.Choice, isFresh: Bool = false, now: UInt64, deadline: UInt64 = .max
    ) -> LeaseAction {
        if !isFresh, let connection = leaseAtOnce(choice) { return .use(connection) }
        return leaseOrWait(waiter, choice, isFresh: isFresh, now: now, deadline: deadline)
    }

    /// Leases an available connection of the selected targets. The usual case, for which no waiter is needed.
    @inline(__always)
    package mutating func leaseAtOnce(_ choice: TargetPicker.Choice) -> Connection? {
        guard !isHeld else { return nil }
        if let connection = table.takeAvailable(in: table.slot(of: choice.first)) { return connection }
        return choice.isClose ? table.takeAvailable(in: table.slot(of: choice.second)) : nil
    }

    /// Requests a connection while all targets have the maximum number of requests in flight. Later requests wait after
    /// it; see ``serve(_:)``.
    package mutating func hold(_ waiter: Waiter, now: UInt64, deadline: UInt64 = .max) -> LeaseAction {
        guard places.take(isWaiting: false) else { return .rejectQueueFull }
        let id = append(waiter, slot: -1, hasPlace: true, now: now, deadline: deadline)
        isHeld = unserved > 0
        return .wait(id, asksOthers: false)
    }

    /// Serves the waiter that has waited longest with an available connection of the selected targets. While
    /// ``isHeld``: call it, and ``permitAvailable()``, after a request had to wait and at each tick.
    package mutating func serve(_ choice: TargetPicker.Choice) -> ConnectionAction {
        guard isHeld, !queue.isEmpty else { return .nothing }
        let connection =
            table.takeAvailable(in: table.slot(of: choice.first))
            ?? table.takeAvailable(in: table.slot(of: choice.second))
        guard let connection, let waiter = popWaiter() else { return .nothing }
        return .handOver(connection, to: waiter)
    }

    @inline(never)
    private mutating func leaseOrWait(
        _ waiter: Waiter, _ choice: TargetPicker.Choice, isFresh: Bool, now: UInt64, deadline: UInt64
    ) -> LeaseAction {
        guard !isHeld else { return hold(waiter, now: now, deadline: deadline) }
        let slot = table.slot(of: choice.first)
        if unserved < 0, table.isExpected(in: slot, streams: expectedStreams) {
            let id = append(waiter, slot: slot, now: now, deadline: deadline)
            return .wait(id, asksOthers: false)
        }
        if takePermit() {
            let attempt = beginAttempt(in: slot)
            return .waitAndConnect(append(waiter, slot: slot, now: now, deadline: deadline), attempt)
        }
        if !isFresh {
            if let connection = table.takeAvailable(in: table.slot(of: choice.second)) { return .use(connection) }
            if let connection = table.takeAnyUsable(after: slot) { return .use(connection) }
        }
        // What is idle now cannot serve the request; its permit can.
        if let connection = removeOldestIdle() {
            let attempt = beginAttempt(in: slot)
            let id = append(waiter, slot: slot, now: now, deadline: deadline)
            return .waitAndReplace(id, attempt, close: connection)
        }
        return wait(waiter, slot: slot, now: now, deadline: deadline)
    }

    // MARK: - Connection attempts

    /// A connection attempt tries a target, which was selected after ``PermitAction/connect(_:)``.
    /// - Parameter target: Index in the current list of targets.
    package mutating func begin(_ id: PooledConnectionID, on target: Int) {
        let index = table.index(of: id, in: .connecting, or: .connecting)
        if index >= 0 { table.assign(index, to: table.slot(of: target)) }
    }

    /// A connection attempt ends without a result, because all targets have the maximum number of requests in flight.
    /// No waiter fails.
    package mutating func abandon(_ id: PooledConnectionID) -> PermitAction {
        let index = table.index(of: id, in: .connecting, or: .connecting)
        guard index >= 0 else { return .nothing }
        table.remove(index)
        isHeld = unserved > 0
        return returnPermit()
    }

    /// A connection was established.
    /// - Parameter streams: Number of leases that it allows at the same time, at least 1.
    package mutating func connected(_ connection: Connection, streams: Int = 1) -> ConnectionAction {
        let index = table.index(of: connection.poolID, in: .connecting, or: .connecting)
        guard index >= 0 else { return .close(connection, .nothing) }
        guard table.isAssigned(index) else {
            table.remove(index)
            return .close(connection, reusePermit())
        }
        expectedStreams = max(streams, 1)
        table.open(index, connection, capacity: expectedStreams)
        // Served even if the target is not usable: it may have been a probe.
        return serve(connection, at: index) ?? becomeIdle(connection, at: index)
    }

    /// The current target of a connection attempt could not be reached.
    /// - Parameters:
    ///   - mayTryOther: Whether another target can be selected.
    ///   - limit: Maximum number of waiters that fail, at least 1.
    package mutating func connectFailed(
        _ id: PooledConnectionID, mayTryOther: Bool, failing limit: Int = .max
    ) -> ConnectFailedAction<Waiter> {
        let index = table.index(of: id, in: .connecting, or: .connecting)
        guard index >= 0 else { return .fail([], .nothing) }
        table.unassign(index)
        // Waiters that no other attempt is expected to serve.
        let unserved = queue.count - (table.connecting - 1) * expectedStreams
        if unserved > 0, mayTryOther, table.tries(at: index) < limits.targets { return .connectOther(id) }
        table.remove(index)
        var failed: [Waiter] = []
        while failed.count < min(unserved, expectedStreams, limit), let waiter = popWaiter() { failed.append(waiter) }
        return .fail(failed, reusePermit())
    }

    // MARK: - Connections

    /// A lease has ended, and the connection is reusable: the response of an HTTP/1.1 connection or the stream of an
    /// HTTP/2 connection is complete. If it is not reusable: ``gone(_:)``.
    /// - Parameter service: Whether the connection serves the waiter that has waited longest.
    @inline(__always)
    package mutating func released(_ connection: Connection, service: PoolService = .permitted) -> ConnectionAction {
        let index = table.index(of: connection.poolID, in: .open, or: .retiring)
        guard index >= 0, let isIdle = table.endUse(index) else { return unexpected(connection, at: index) }
        if queue.isEmpty, !owesPermit, !isClosed, table.state(at: index) == .open {
            return isIdle ? .keep(connection) : .nothing
        }
        return released(connection, at: index, isIdle: isIdle, service: service)
    }

    /// As ``released(_:service:)`` for an HTTP/1.1 connection, if the only result is that it becomes idle. The usual
    /// case, for which no action is needed.
    /// - Returns: Whether it is idle. Otherwise nothing has changed.
    @inline(__always)
    package mutating func releasedToIdle(_ id: PooledConnectionID) -> Bool {
        guard queue.isEmpty, !owesPermit, !isClosed else { return false }
        let index = table.index(of: id, in: .open, or: .open)
        return index >= 0 && table.used(at: index) == 1 && table.endUse(index) == true
    }

    /// The leases of an HTTP/2 connection have changed, or how many it allows (RFC 9113 §5.1.2); it need not be notified of
    /// each ended lease with ``released(_:service:)`` then.
    /// - Parameters:
    ///   - leases: Streams in use by requests.
    ///   - further: Number of streams that could begin now.
    package mutating func room(_ connection: Connection, leases: Int, further: Int) -> ConnectionAction {
        let index = table.index(of: connection.poolID, in: .open, or: .retiring)
        guard index >= 0 else { return .nothing }
        let wasIdle = table.used(at: index) == 0
        table.setRoom(at: index, leases: leases, further: further)
        let isIdle = table.used(at: index) == 0
        let action = released(connection, at: index, isIdle: isIdle, service: .permitted)
        if wasIdle, case .keep = action { return .nothing }
        return action
    }

    /// Serves further waiters, with a further stream of the connection or otherwise. Call it after
    /// ``PooledConnectionAction/handOver(_:to:)`` until the result is `.nothing`; not needed for an upstream with HTTP/1.1
    /// only.
    package mutating func next(for connection: Connection) -> ConnectionAction {
        let index = table.index(of: connection.poolID, in: .open, or: .open)
        if index >= 0, connection.isTargetUsable, let action = serve(connection, at: index) { return action }
        // It may allow fewer streams than expected.
        return connect()
    }

    /// Uses a connection for no further lease: after GOAWAY (RFC 9113 §6.8), or at the end of its lifetime. It is closed
    /// when its last lease has ended, and replaced at once if a request waits.
    package mutating func retire(_ connection: Connection) -> ConnectionAction {
        let index = table.index(of: connection.poolID, in: .open, or: .open)
        guard index >= 0 else { return .nothing }
        table.retire(index)
        guard table.used(at: index) == 0 else { return connect() }
        table.remove(index)
        return .close(connection, reusePermit())
    }

    /// A connection was closed, or is about to be closed by the caller; its leases have ended.
    package mutating func gone(_ connection: Connection) -> PermitAction {
        let index = table.index(of: connection.poolID, in: .open, or: .retiring)
        guard index >= 0 else { return .nothing }
        table.remove(index)
        return reusePermit()
    }

    /// Closes idle connections; leased ones are closed when they are released and no request waits.
    package mutating func close() -> ClosedConnections<Connection> {
        isClosed = true
        return returnPermits(of: table.takeIdle(ofVanishedTargets: false))
    }

    /// Replaces the list of targets. Idle connections of vanished targets are closed; leased ones are closed when they
    /// are released. Call ``permitAvailable()`` afterwards.
    /// - Parameter kept: For each new target its index in the list before, or -1.
    package mutating func targetsChanged(_ kept: [Int]) -> ClosedConnections<Connection> {
        table.replaceTargets(kept)
        return returnPermits(of: table.takeIdle(ofVanishedTargets: true))
    }

    // MARK: - Parts of the events

    @inline(never)
    private mutating func released(
        _ connection: Connection, at index: Int, isIdle: Bool, service: PoolService
    ) -> ConnectionAction {
        if table.state(at: index) == .retiring {
            guard isIdle else { return .nothing }
            table.remove(index)
            return .close(connection, reusePermit())
        }
        if !queue.isEmpty {
            if connection.isTargetUsable, let action = serve(connection, at: index, service) { return action }
            // It cannot serve the waiter, but its permit can. A target that fails fast would otherwise serve them all.
            if isIdle, unserved > 0, !isHeld {
                table.remove(index)
                return .close(connection, reusePermit())
            }
        }
        return isIdle ? becomeIdle(connection, at: index) : .nothing
    }

    @inline(never)
    private func unexpected(_ connection: Connection, at index: Int) -> ConnectionAction {
        assert(index < 0, "The connection has no lease")
        return index < 0 ? .close(connection, .nothing) : .nothing
    }

    /// Leases a connection to the waiter that has waited longest.
    private mutating func serve(
        _ connection: Connection, at index: Int, _ service: PoolService = .permitted
    ) -> ConnectionAction? {
        guard table.hasRoom(at: index), !queue.isEmpty else { return nil }
        guard service == .permitted, let waiter = popWaiter() else {
            if service == .held { isHeld = unserved > 0 }
            return nil
        }
        table.use(index)
        return .handOver(connection, to: waiter)
    }

    private mutating func becomeIdle(_ connection: Connection, at index: Int) -> ConnectionAction {
        owesPermit = owesPermit && permits.isBeyondGuarantee && permits.isAwaited
        guard isClosed || owesPermit else { return .keep(connection) }
        table.remove(index)
        return .close(connection, reusePermit())
    }

    /// Queues a waiter that no attempt is expected to serve. The loop is woken when a permit becomes available.
    private mutating func wait(_ waiter: Waiter, slot: Int, now: UInt64, deadline: UInt64) -> LeaseAction {
        guard places.take(isWaiting: false) else { return .rejectQueueFull }
        switch awaitPermit() {
        case .taken:
            // Returned by another loop meanwhile.
            _ = places.giveBack()
            let attempt = beginAttempt(in: slot)
            return .waitAndConnect(append(waiter, slot: slot, now: now, deadline: deadline), attempt)
        case let result:
            let id = append(waiter, slot: slot, hasPlace: true, now: now, deadline: deadline)
            return .wait(id, asksOthers: result == .ask)
        }
    }

    private mutating func beginAttempt(in slot: Int) -> PooledConnectionID {
        let id = addAttempt()
        table.assign(Int(id.index), to: slot)
        return id
    }

    /// Provides a connection for a waiter that no attempt in progress is expected to serve.
    private mutating func connect() -> ConnectionAction {
        guard unserved > 0, !isHeld else { return .nothing }
        if let connection = table.takeAnyUsable(after: -1), let waiter = popWaiter() {
            return .handOver(connection, to: waiter)
        }
        if takePermit() { return .permit(.connect(addAttempt())) }
        if let connection = removeOldestIdle() { return .close(connection, .connect(addAttempt())) }
        let action = connectForWaiters()
        return action == .nothing ? .nothing : .permit(action)
    }
}
