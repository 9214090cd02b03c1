import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// The connections of one event loop to one upstream.
final class UpstreamPool {
    let upstream: UpstreamRuntime
    /// A dial may end after everything else: it still finds the context there.
    private let context: LoopContext
    private var machine: UpstreamPoolStateMachine<UpstreamConnection, Exchange>
    private lazy var connector = PoolConnector(pool: self, context: context)
    private var isClosed = false
    /// How long an exchange waits for a connection.
    let pendingTimeout: UInt64
    let idleTimeout: UInt64
    /// How long it may take until a connection stands.
    let connectTimeout: UInt64
    /// What heads of answers are held to.
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

    /// How long a connection that is new may be kept.
    var newLifetime: ConnectionLifetime {
        ConnectionLifetime(
            until: connectionLifetime == 0 ? .max : context.now &+ connectionLifetime, requests: requestsPerConnection)
    }

    enum Lease {
        case connection(UpstreamConnection)
        case waiting
        case rejected
    }

    /// Asks for a connection: gives one at once, or calls the exchange back later.
    func lease(_ exchange: Exchange, isFresh: Bool) -> Lease {
        switch machine.lease(exchange, isFresh: isFresh) {
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

    /// The exchange does not want to wait any longer.
    func cancel(_ exchange: Exchange) {
        upstream.pendingRequests.add(-1)
        machine.cancel(exchange)
    }

    /// A leased connection is free again.
    func release(_ connection: UpstreamConnection) {
        upstream.activeConnections.add(-1)
        guard connection.lifetime.isOver(now: context.now) else { return handle(machine.release(connection)) }
        // Only what is idle can be closed from here.
        connection.becomeIdle()
        connection.evict()
        if machine.discardLeased() { connect() }
    }

    /// A leased connection is gone.
    func discardLeased() {
        upstream.activeConnections.add(-1)
        if machine.discardLeased() { connect() }
    }

    /// An idle connection is gone.
    func discardIdle(_ connection: UpstreamConnection) {
        upstream.idleConnections.add(-1)
        machine.discardIdle(connection)
    }

    /// Closes what is idle; what is leased is closed when it comes back.
    func close() {
        isClosed = true
        for connection in machine.takeIdle() {
            upstream.idleConnections.add(-1)
            connection.evict()
        }
    }

    private func handle(_ action: UpstreamPoolStateMachine<UpstreamConnection, Exchange>.AvailabilityAction) {
        switch action {
        case .handOver(let connection, let exchange):
            upstream.pendingRequests.add(-1)
            upstream.activeConnections.add(1)
            connection.lifetime.use()
            exchange.leased(connection)
        case .keep(let connection):
            upstream.idleConnections.add(1)
            connection.becomeIdle()
            if isClosed {
                discardIdle(connection)
                connection.evict()
            }
        }
    }

    // MARK: - Dialing

    private func connect() {
        connector.connect()
    }

    /// A connection stands.
    func connected(_ connection: UpstreamConnection) {
        handle(machine.connected(connection))
    }

    /// No connection could be made.
    /// - Parameters:
    ///   - target: Index of the target that was tried last, among those of the upstream.
    ///   - duration: How long it took to find out, in nanoseconds.
    func connectFailed(_ failure: UpstreamFailure, target: Int, duration: UInt64) {
        if case .fail(let exchange) = machine.connectFailed() {
            upstream.pendingRequests.add(-1)
            exchange.connectFailed(failure, target: upstream.firstTarget + target, duration: duration)
        }
        if machine.connectIfNeeded() { connect() }
    }
}
