import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Connection pool of one event loop for one upstream: selects targets, leases connections to exchanges, and reports
/// their outcomes to the board of the upstream. Kept over a reload that does not change the upstream.
///
/// Folder `Upstream/`: leases connections to exchanges, writes requests and interprets responses; knows no route and no
/// session.
final class UpstreamPool {
    typealias Machine = UpstreamPoolStateMachine<UpstreamLink, Waiter>

    /// Its part of the configuration in effect.
    private(set) var upstream: UpstreamRuntime
    /// Retained: a connection attempt may outlive the other owners.
    let context: LoopContext
    private(set) var targets: TargetSet
    var machine: Machine
    var outcomes = TargetOutcomes()
    private var gauges = PoolGauges()
    /// Leases that are to be released.
    var unused: [any UpstreamLease] = []
    var isReleasing = false
    /// Counter for `roundRobin`.
    private var turn: UInt32 = 0
    private(set) lazy var connector = PoolConnector(pool: self, context: context)
    private(set) var isClosed = false
    /// HTTP version of the connections.
    let protocolVersion: UpstreamProtocol
    /// Connections for WebSockets, which use HTTP/1.1; `nil` if this pool uses only HTTP/1.1 itself.
    private(set) var tunnels: UpstreamPool?
    /// Whether it is the pool for WebSockets of an upstream with HTTP/2.
    let areTunnels: Bool
    /// `nil` without HTTP/2.
    let http2Metrics: UpstreamHTTP2Metrics?
    /// Number of HTTP/2 streams that serve requests.
    var streams = 0
    /// Requests that got no connection in time since the last tick.
    private var waitedInVain = 0
    /// Maximum idle time of a connection, in nanoseconds.
    let idleTimeout: UInt64
    private let connectionLifetime: UInt64
    /// Maximum number of requests in flight to a target; 0 for none.
    let targetLimit: Int
    /// Maximum number of targets that a connection attempt tries.
    let connectTargets: Int
    /// Maximum time until the response head before another attempt, in nanoseconds; `UInt64.max` for none.
    let attemptTimeout: UInt64

    /// - Parameter areTunnels: Whether it is the pool for WebSockets of an upstream with HTTP/2.
    init(_ upstream: UpstreamRuntime, context: LoopContext, areTunnels: Bool = false) {
        self.upstream = upstream
        self.context = context
        let pool = upstream.configuration.pool
        let shared = upstream.targets
        targets = shared.targets
        let version = areTunnels ? .http1 : upstream.configuration.protocolVersion
        protocolVersion = version
        http2Metrics = version.allowsHTTP2 ? upstream.metrics.http2 : nil
        self.areTunnels = areTunnels
        let permits = shared.permits(forTunnels: areTunnels)
        machine = Machine(
            PoolLimits(
                pendingTimeout: pool.pendingTimeout.wholeNanoseconds,
                congestedAfter: pool.congestedAfter.wholeNanoseconds,
                congestedTimeout: pool.congestedTimeout.wholeNanoseconds,
                // With ALPN it is not known before.
                streams: version.isMultiplexed ? pool.streams : 1,
                targets: upstream.configuration.retry.connectTargets),
            connections: permits.connections, places: permits.queue, loop: context.index,
            targets: targets.table.count)
        idleTimeout = pool.idleTimeout.wholeNanoseconds
        connectionLifetime = pool.connectionLifetime.wholeNanoseconds
        connectTargets = upstream.configuration.retry.connectTargets
        targetLimit = upstream.configuration.inFlight.target
        let attempt = upstream.configuration.retry.attemptTimeout.wholeNanoseconds
        attemptTimeout = attempt == 0 ? .max : attempt
        if version.allowsHTTP2 { tunnels = UpstreamPool(upstream, context: context, areTunnels: true) }
    }

    /// The pool for a request: WebSockets use HTTP/1.1.
    func pool(for upgrade: RequestedUpgrade) -> UpstreamPool {
        guard let tunnels, upgrade != .none else { return self }
        return tunnels
    }

    /// What it uses besides the configuration of its upstream.
    var settings: UpstreamTargets.PoolSettings { upstream.targets.poolSettings }

    /// Serves the upstream of a new configuration, which has the same targets.
    func adopt(_ other: UpstreamRuntime) {
        upstream = other
        tunnels?.adopt(other)
    }

    /// Lifetime limit of a new connection.
    var newLifetime: ConnectionLifetime { ConnectionLifetime(until: context.now &+ connectionLifetime) }

    // MARK: - Leases

    /// Leases a connection: returns one at once, or calls the exchange later.
    func lease(_ delegate: any UpstreamDelegate, _ options: LeaseOptions) -> Lease {
        switch pick(tried: options.tried) {
        case .target(let choice):
            if !options.isFresh, !choice.isProbe, let link = machine.leaseAtOnce(choice) {
                if case .http1(let connection) = link, !connection.isSpent {
                    connection.use(isTimed: options.isTimed, now: context.now)
                    if options.isFirst { outcomes.firstAttempts += 1 }
                    return .leased(connection)
                }
                if let lease = use(link, for: Waiter(delegate, options)) { return .leased(lease) }
                hasNoRoom(link)
            }
            return leaseOrWait(Waiter(delegate, options), choice, options)
        case .reject(.cap): return hold(Waiter(delegate, options), until: options.deadline)
        case .reject(.noTarget):
            upstream.metrics.rejections[.noTarget]?.increment()
            return .rejected
        }
    }

    private func leaseOrWait(_ request: Waiter, _ choice: TargetPicker.Choice, _ options: LeaseOptions) -> Lease {
        var waiter = request
        if choice.isProbe { waiter.probe = targets.targets[choice.first].state }
        // A connection with streams that has failed is not selected again.
        let isFresh = options.isFresh && !protocolVersion.isMultiplexed
        switch machine.lease(waiter, choice, isFresh: isFresh, now: context.now, deadline: options.deadline) {
        case .use(let link):
            guard let lease = use(link, for: waiter) else {
                hasNoRoom(link)
                left(waiter)
                return lease(waiter.delegate, options)
            }
            return .leased(lease)
        case .waitAndConnect(let id, let attempt):
            connector.connect(attempt, to: targets.targets[choice.first])
            return .waiting(id)
        case .waitAndReplace(let id, let attempt, let idle):
            idle.evict()
            connector.connect(attempt, to: targets.targets[choice.first])
            return .waiting(id)
        case .wait(let id, let asksOthers):
            if asksOthers { askOthers() }
            if machine.isHeld { awaitPlace() }
            return .waiting(id)
        case .rejectQueueFull:
            upstream.metrics.rejections[.queueFull]?.increment()
            left(waiter)
            return .rejected
        }
    }

    func pick(tried: TriedTargets) -> TargetPicker.Pick {
        TargetPicker.pick(targets.table, tried: tried, random: context.random(), turn: &turn, now: context.now)
    }

    private func hold(_ waiter: Waiter, until deadline: UInt64) -> Lease {
        if case .wait(let id, _) = machine.hold(waiter, now: context.now, deadline: deadline) {
            awaitPlace()
            return .waiting(id)
        }
        upstream.metrics.rejections[.queueFull]?.increment()
        return .rejected
    }

    /// A probe that was claimed is not sent.
    func abandon(_ choice: TargetPicker.Choice) {
        if choice.isProbe { abandon(targets.targets[choice.first].state) }
    }

    func abandon(_ probe: TargetState) {
        upstream.targets.board.probeAbandoned(probe, now: context.now)
    }

    /// - Returns: `nil` if an HTTP/2 connection has no room, or an HTTP/1.1 connection may serve no other request.
    func use(_ link: UpstreamLink, for waiter: Waiter) -> (any UpstreamLease)? {
        let lease: any UpstreamLease
        switch link {
        case .http1(let connection):
            guard !connection.isSpent else { return nil }
            connection.use(isTimed: waiter.isTimed, now: context.now)
            connection.isProbe = isProbe(waiter, of: connection.target)
            lease = connection
        case .http2(let connection):
            guard let stream = connection.lease(isTimed: waiter.isTimed) else { return nil }
            stream.isProbe = isProbe(waiter, of: connection.target)
            streams += 1
            lease = stream
        }
        if waiter.isFirst { outcomes.firstAttempts += 1 }
        return lease
    }

    /// Whether a waiter probes the target that is leased. Another target that it was to probe is not probed.
    private func isProbe(_ waiter: Waiter, of target: TargetRuntime) -> Bool {
        guard let probe = waiter.probe else { return false }
        if probe !== target.state { abandon(probe) }
        return probe === target.state
    }

    /// A lease has ended.
    /// - Returns: Whether another event loop was notified that a request may begin.
    @discardableResult
    func leaseEnded(_ isProbe: inout Bool, at target: TargetRuntime) -> Bool {
        if isProbe {
            // It ended without a result.
            isProbe = false
            abandon(target.state)
        }
        return targetLimit > 0 && passOnPlace()
    }

    /// A waiter leaves without a connection.
    func left(_ waiter: Waiter) {
        if let probe = waiter.probe { abandon(probe) }
    }

    /// The exchange no longer needs a connection.
    func cancel(_ waiter: WaiterID) {
        if let waiter = machine.cancel(waiter) { left(waiter) }
        if isClosed { updateGauges() }
    }

    /// The number of requests that have waited ``PressureRule/waitingTime`` and for which no connection is being
    /// established, and of those that have waited in vain since the last call: in a long queue requests leave before
    /// that time, see ``PoolConfiguration/congestedTimeout``.
    func starvedWaiters(now: UInt64) -> Int {
        defer { waitedInVain = 0 }
        return waitedInVain + machine.waitersWithoutPermit(longerThan: PressureRule.waitingTime, now: now)
    }

    /// A leased connection is returned.
    func release(_ connection: UpstreamConnection) {
        let isPassedOn = leaseEnded(connection)
        let isOver =
            connection.lifetime.isOver(now: context.now)
            || !connection.target.mayReuseConnections(now: context.now)
        if !isOver, machine.releasedToIdle(connection.poolID) { return connection.becomeIdle() }
        if machine.waitingCount > 0 { expire() }
        if isOver { perform(machine.retire(.http1(connection))) }
        perform(machine.released(.http1(connection), service: service(of: connection, isPassedOn: isPassedOn)))
        if machine.isHeld { serveHeld(isPassedOn: isPassedOn) }
        if isClosed { updateGauges() }
    }

    /// A leased connection was closed.
    func discardLeased(_ connection: UpstreamConnection) {
        let isPassedOn = leaseEnded(connection)
        perform(machine.gone(.http1(connection)))
        if machine.isHeld { serveHeld(isPassedOn: isPassedOn) }
        if isClosed { updateGauges() }
    }

    /// An idle connection was closed.
    func discardIdle(_ connection: UpstreamConnection) {
        perform(machine.gone(.http1(connection)))
        if isClosed { updateGauges() }
    }

    /// - Returns: Whether another event loop was notified that a request may begin.
    private func leaseEnded(_ connection: UpstreamConnection) -> Bool {
        connection.endUse()
        return leaseEnded(&connection.isProbe, at: connection.target)
    }

    /// Closes idle connections; leased ones are closed when they are returned.
    func close() {
        tunnels?.close()
        isClosed = true
        close(machine.close())
        updateGauges()
        flushOutcomes()
    }

    // MARK: - Targets

    /// Where a request that failed can be sent.
    /// - Parameter failed: The targets that failed.
    func retryTargets(failed: TriedTargets) -> RetryTargets {
        if targets.table.entries.contains(where: {
            $0.weight > 0 && $0.state.word.isUsable && !failed.contains($0.state.slot)
        }) {
            return .other
        }
        return targets.table.entries.contains { $0.weight > 0 } ? .tried : .none
    }

    func targetsChanged() {
        flushOutcomes()
        let old = targets
        targets = upstream.targets.targets
        tunnels?.targetsChanged()
        close(
            machine.targetsChanged(
                targets.targets.map { target in old.targets.firstIndex { $0 === target } ?? -1 }))
        permitAvailable()
    }

    // MARK: - Time

    /// Called at each tick of the event loop.
    func tick() {
        tunnels?.tick()
        if machine.waitingCount > 0 {
            expire()
            if machine.isHeld { serveHeld(isPassedOn: false) }
        }
        report()
    }

    /// Reports what has happened since the last call: at each tick, and after the last request of a closed pool, which
    /// gets no further ticks.
    func report() {
        flushOutcomes()
        updateGauges()
    }

    func expire() {
        while let expired = machine.expire(now: context.now) {
            waitedInVain &+= 1
            left(expired.waiter)
            guard expired.reason != .deadline else {
                expired.waiter.delegate.upstreamConnectFailed(
                    UpstreamFailure(.responseTimeout), target: nil, duration: 0)
                continue
            }
            upstream.metrics.rejections[expired.reason == .congested ? .congested : .pendingTimeout]?.increment()
            expired.waiter.delegate.upstreamConnectFailed(UpstreamFailure(.poolExhausted), target: nil, duration: 0)
        }
    }

    func updateGauges() {
        let idle = machine.idleCount
        gauges.update(
            upstream, idle: idle, active: machine.connectionCount - machine.connectingCount - idle,
            pending: machine.waitingCount)
        if let http2Metrics { gauges.update(http2Metrics, streams: streams) }
    }
}
