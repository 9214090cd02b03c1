import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOPosix

/// The connections of one event loop to one upstream.
final class UpstreamPool {
    let upstream: UpstreamEntry
    /// A dial may end after everything else: it still finds the context there.
    private let context: LoopContext
    private var machine: UpstreamPoolStateMachine<UpstreamConnection, Exchange>
    private var nextTarget = 0
    private var isClosed = false
    /// How long an exchange waits for a connection.
    let pendingTimeout: UInt64
    let idleTimeout: UInt64

    init(_ upstream: UpstreamEntry, context: LoopContext) {
        self.upstream = upstream
        self.context = context
        let pool = upstream.plan.pool
        let loops = context.loopCount
        machine = UpstreamPoolStateMachine(
            capacity: (pool.maxConnections + loops - 1) / loops, maxWaiting: (pool.maxPending + loops - 1) / loops)
        pendingTimeout = pool.pendingTimeout.wholeNanoseconds
        idleTimeout = pool.idleTimeout.wholeNanoseconds
    }

    enum Lease {
        case connection(UpstreamConnection)
        case waiting
        case refused
    }

    /// Asks for a connection: gives one at once, or calls the exchange back later.
    func lease(_ exchange: Exchange, isFresh: Bool) -> Lease {
        switch machine.lease(exchange, isFresh: isFresh) {
        case .use(let connection):
            upstream.idleConnections.add(-1)
            upstream.activeConnections.add(1)
            return .connection(connection)
        case .waitAndDial:
            upstream.pendingRequests.add(1)
            dial()
            return .waiting
        case .wait:
            upstream.pendingRequests.add(1)
            return .waiting
        case .refuse:
            return .refused
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
        handle(machine.release(connection))
    }

    /// A leased connection is gone.
    func discardLeased() {
        upstream.activeConnections.add(-1)
        if machine.discardLeased() { dial() }
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
            connection.closeFromPool()
        }
    }

    private func handle(_ action: UpstreamPoolStateMachine<UpstreamConnection, Exchange>.OnAvailable) {
        switch action {
        case .handOver(let connection, let exchange):
            upstream.pendingRequests.add(-1)
            upstream.activeConnections.add(1)
            exchange.leased(connection)
        case .keep(let connection):
            upstream.idleConnections.add(1)
            connection.keep()
            if isClosed {
                discardIdle(connection)
                connection.closeFromPool()
            }
        }
    }

    // MARK: - Dialing

    private func dial() {
        let targetIndex = nextTarget
        nextTarget = (nextTarget + 1) % upstream.plan.targets.count
        dial(targetIndex, triesLeft: upstream.plan.targets.count - 1)
    }

    private func dial(_ targetIndex: Int, triesLeft: Int) {
        let target = upstream.plan.targets[targetIndex]
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let bootstrap = ClientBootstrap(group: context.eventLoop)
            .connectTimeout(.nanoseconds(Int64(clamping: context.tables.plan.timeouts.connect.wholeNanoseconds)))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pool = bound.value
                    let connection = UpstreamConnection(
                        channel: channel, pool: pool, context: pool.context, targetIndex: targetIndex)
                    try channel.pipeline.syncOperations.addHandler(connection)
                }
            }
        let connecting: EventLoopFuture<any Channel>
        if let address = try? SocketAddress(ipAddress: target.host, port: target.port) {
            connecting = bootstrap.connect(to: address)
        } else {
            connecting = bootstrap.connect(host: target.host, port: target.port)
        }
        connecting.assumeIsolated().whenComplete { result in
            let pool = bound.value
            pool.context.beginEvent()
            switch result {
            case .success(let channel):
                do {
                    let connection = try channel.pipeline.syncOperations.handler(type: UpstreamConnection.self)
                    pool.handle(pool.machine.dialed(connection))
                } catch {
                    // It was closed again before anybody could use it, and its handlers are gone with it.
                    pool.dialFailed(UpstreamFailure(.unreachable))
                }
            case .failure(let error):
                if triesLeft > 0 {
                    pool.dial((targetIndex + 1) % pool.upstream.plan.targets.count, triesLeft: triesLeft - 1)
                    return
                }
                let isTimeout =
                    if case ChannelError.connectTimeout = error { true } else { false }
                pool.dialFailed(UpstreamFailure(isTimeout ? .connectTimeout : .unreachable))
            }
        }
    }

    private func dialFailed(_ failure: UpstreamFailure) {
        if case .fail(let exchange) = machine.dialFailed() {
            upstream.pendingRequests.add(-1)
            exchange.leaseFailed(failure)
        }
        if machine.dialIfNeeded() { dial() }
    }
}
