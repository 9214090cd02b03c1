import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Connection pool of one event loop for one upstream.
///
/// Folder `Upstream/`: leases connections to exchanges, writes requests and interprets responses; knows no route and no
/// session.
final class UpstreamPool {
    let upstream: UpstreamRuntime
    /// Retained: a connection attempt may outlive the other owners.
    private let context: LoopContext
    private var machine: UpstreamPoolStateMachine<UpstreamConnection, Waiter>
    private lazy var connector = PoolConnector(pool: self, context: context)
    private var isClosed = false
    /// Maximum time that an exchange waits for a connection, in nanoseconds.
    let pendingTimeout: UInt64
    let idleTimeout: UInt64
    /// Timeout of a connection attempt, in nanoseconds.
    let connectTimeout: UInt64
    /// Limits of response heads.
    let headLimits: HeadLimits
    private let requestsPerConnection: Int
    private let connectionLifetime: UInt64

    init(_ upstream: UpstreamRuntime, timeouts: TimeoutNanoseconds, headLimits: HeadLimits, context: LoopContext) {
        self.upstream = upstream
        self.headLimits = headLimits
        connectTimeout = timeouts.connect
        self.context = context
        let pool = upstream.configuration.pool
        let loops = context.loopCount
        machine = UpstreamPoolStateMachine(
            capacity: (pool.maxConnections + loops - 1) / loops, maxWaiting: (pool.maxPending + loops - 1) / loops)
        pendingTimeout = pool.pendingTimeout.wholeNanoseconds
        idleTimeout = pool.idleTimeout.wholeNanoseconds
        requestsPerConnection = pool.requestsPerConnection
        connectionLifetime = pool.connectionLifetime.wholeNanoseconds
    }

    /// Lifetime limits of a new connection.
    var newLifetime: ConnectionLifetime {
        ConnectionLifetime(
            until: connectionLifetime == 0 ? .max : context.now &+ connectionLifetime, requests: requestsPerConnection)
    }

    /// An exchange that waits for a connection.
    private struct Waiter: Equatable {
        let delegate: any UpstreamDelegate

        static func == (left: Waiter, right: Waiter) -> Bool { left.delegate === right.delegate }
    }

    enum Lease {
        case connection(UpstreamConnection)
        case waiting
        case rejected
    }

    /// Leases a connection: returns one at once, or calls the exchange later.
    func lease(_ delegate: any UpstreamDelegate, isFresh: Bool) -> Lease {
        switch machine.lease(Waiter(delegate: delegate), isFresh: isFresh) {
        case .use(let connection):
            upstream.idleConnections.add(-1)
            upstream.activeConnections.add(1)
            connection.lifetime.use()
            return .connection(connection)
        case .waitAndConnect:
            upstream.pendingRequests.add(1)
            connect()
            return .waiting
        case .wait:
            upstream.pendingRequests.add(1)
            return .waiting
        case .reject:
            return .rejected
        }
    }

    /// The exchange no longer needs a connection.
    func cancel(_ delegate: any UpstreamDelegate) {
        upstream.pendingRequests.add(-1)
        machine.cancel(Waiter(delegate: delegate))
    }

    /// A leased connection is returned.
    func release(_ connection: UpstreamConnection) {
        upstream.activeConnections.add(-1)
        guard connection.lifetime.isOver(now: context.now) else { return handle(machine.release(connection)) }
        // Only idle connections can be closed by the pool.
        connection.becomeIdle()
        connection.evict()
        if machine.discardLeased() { connect() }
    }

    /// A leased connection was closed.
    func discardLeased() {
        upstream.activeConnections.add(-1)
        if machine.discardLeased() { connect() }
    }

    /// An idle connection was closed.
    func discardIdle(_ connection: UpstreamConnection) {
        upstream.idleConnections.add(-1)
        machine.discardIdle(connection)
    }

    /// Closes idle connections; leased ones are closed when they are returned.
    func close() {
        isClosed = true
        for connection in machine.takeIdle() {
            upstream.idleConnections.add(-1)
            connection.evict()
        }
    }

    private func handle(_ action: UpstreamPoolStateMachine<UpstreamConnection, Waiter>.AvailabilityAction) {
        switch action {
        case .handOver(let connection, let waiter):
            upstream.pendingRequests.add(-1)
            upstream.activeConnections.add(1)
            connection.lifetime.use()
            waiter.delegate.upstreamConnected(connection)
        case .keep(let connection):
            upstream.idleConnections.add(1)
            connection.becomeIdle()
            if isClosed {
                discardIdle(connection)
                connection.evict()
            }
        }
    }

    // MARK: - Connecting

    private func connect() {
        connector.connect()
    }

    /// A connection was established.
    func connected(_ connection: UpstreamConnection) {
        handle(machine.connected(connection))
    }

    /// No connection could be established.
    /// - Parameters:
    ///   - target: Index within the upstream of the target that was tried last.
    ///   - duration: Duration of the attempts, in nanoseconds.
    func connectFailed(_ failure: UpstreamFailure, target: Int, duration: UInt64) {
        if case .fail(let waiter) = machine.connectFailed() {
            upstream.pendingRequests.add(-1)
            waiter.delegate.upstreamConnectFailed(failure, target: upstream.firstTarget + target, duration: duration)
        }
        if machine.connectIfNeeded() { connect() }
    }
}
