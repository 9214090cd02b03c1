public import CloakroomCore
import CloakroomTelemetry
public import Logging
import NIOCore
import NIOPosix
import NIOSSL
public import ServiceLifecycle
import Synchronization

/// Accepts clients and serves them until it is told to stop; then lets them finish.
public final class GatewayServer: Service {
    /// Where one listener listens.
    public struct BoundListener: Sendable, Equatable {
        /// The address and the port, as the system gave them.
        public let address: HostAndPort
        /// Whether it speaks TLS.
        public let isTLS: Bool
    }

    private let tables: GatewayTables
    private let logger: Logger
    private let onListening: @Sendable ([BoundListener]) async -> Void
    private let phase = Mutex(Phase.starting)

    private enum Phase {
        case starting, listening, draining, stopped
    }

    /// Makes a server.
    /// - Parameter onListening: Is called once all listeners stand.
    public init(
        tables: GatewayTables, logger: Logger,
        onListening: @escaping @Sendable ([BoundListener]) async -> Void = { _ in }
    ) {
        self.tables = tables
        self.logger = logger
        self.onListening = onListening
    }

    /// Whether it takes requests: all listeners stand, and it was not told to stop.
    public var isReady: Bool {
        phase.withLock { if case .listening = $0 { true } else { false } }
    }

    /// Serves until graceful shutdown or cancellation.
    /// - Throws: ``ListenerError`` if a listener cannot stand; it says which and why.
    public func run() async throws {
        let loopCount = max(tables.plan.eventLoops ?? System.coreCount, 1)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: loopCount)
        do {
            try await serve(on: group, loopCount: loopCount)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
        try await group.shutdownGracefully()
    }

    private func serve(on group: MultiThreadedEventLoopGroup, loopCount: Int) async throws {
        let loops = try await LoopContexts(group: group, tables: tables, loopCount: loopCount)
        let limiter = ConnectionLimit(tables.plan.limits.connections)
        var channels: [any Channel] = []
        do {
            for listener in tables.plan.listeners {
                channels.append(try await Listener(listener, loops: loops, limit: limiter).bind(on: group))
            }
        } catch {
            for channel in channels { try? await channel.close() }
            await loops.stop()
            throw error
        }
        phase.withLock { $0 = .listening }
        await onListening(
            zip(channels, tables.plan.listeners).map { channel, listener in
                let port = channel.localAddress?.port ?? listener.address.port
                return BoundListener(
                    address: HostAndPort(host: listener.address.host, port: port), isTLS: listener.tls != nil)
            })
        // Sleeps until it is told to stop, one way or the other.
        try? await gracefulShutdown()
        phase.withLock { $0 = .draining }
        logger.notice("draining", metadata: ["limit_seconds": "\(tables.plan.timeouts.drain.components.seconds)"])
        for channel in channels { try? await channel.close() }
        let isClean = Task.isCancelled ? false : await loops.drain(within: tables.plan.timeouts.drain)
        if !isClean { logger.warning("exchanges were cut off at the drain limit") }
        await loops.stop()
        phase.withLock { $0 = .stopped }
    }
}

/// Why a listener does not stand.
public struct ListenerError: Error, CustomStringConvertible {
    /// Which, why, and what to do.
    public let description: String
}
