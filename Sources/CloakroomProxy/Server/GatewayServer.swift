public import CloakroomCore
import CloakroomTelemetry
public import Logging
import NIOCore
import NIOPosix
public import ServiceLifecycle
import Synchronization

/// Accepts clients and serves them until it is told to stop; then lets them finish.
public final class GatewayServer: Service, Unprintable {
    /// Where one listener listens.
    public struct BoundListener: Sendable, Equatable {
        /// The address and the port, as the system gave them.
        public let address: HostAndPort
        /// Whether it speaks TLS.
        public let isTLS: Bool
    }

    /// What it started with. What can change is in ``running``.
    private let config: ConfigSnapshot
    /// Whether it shares addresses with a gateway that listens on them already.
    private let takesOverListeners: Bool
    private let logger: Logger
    private let onListening: @Sendable ([BoundListener]) async -> Void
    private let phase = Mutex(Phase.starting)
    private let running = Mutex<Running?>(nil)

    private enum Phase {
        case starting, listening, draining, stopped
    }

    /// What a reload changes.
    private struct Running {
        var config: ConfigSnapshot
        let loops: LoopContextGroup
        let listeners: [Listener]
    }

    /// Makes a server.
    /// - Parameters:
    ///   - takesOver: Whether it shares addresses with another gateway of the same user that listens on them already, in
    ///     order to replace it. Otherwise an address in use is an error.
    ///   - onListening: Is called once all listeners stand.
    public init(
        config: ConfigSnapshot, takesOverListeners: Bool = false, logger: Logger,
        onListening: @escaping @Sendable ([BoundListener]) async -> Void = { _ in }
    ) {
        self.config = config
        self.takesOverListeners = takesOverListeners
        self.logger = logger
        self.onListening = onListening
    }

    /// Whether it takes requests: all listeners stand, and it was not told to stop.
    public var isReady: Bool {
        phase.withLock { if case .listening = $0 { true } else { false } }
    }

    /// Whether it was told to stop and lets clients finish.
    public var isDraining: Bool {
        phase.withLock { if case .draining = $0 { true } else { false } }
    }

    /// Serves until graceful shutdown or cancellation.
    /// - Throws: ``ListenerError`` if a listener cannot stand; it says which and why.
    public func run() async throws {
        let loopCount = max(config.configuration.eventLoops ?? System.coreCount, 1)
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
        let loops = try await LoopContextGroup(group: group, config: config, loopCount: loopCount)
        let limit = ConnectionLimit(connectionLimit())
        let listeners: [Listener]
        let sockets: [ListeningSocket]
        do {
            listeners = try makeListeners(loops: loops, limit: limit)
            sockets = try await bind(listeners, on: group)
        } catch {
            await loops.stop()
            throw error
        }
        // Goes on until the end of this function, which cancels it.
        async let _: Void = CertificateReloader.watch(
            listeners.compactMap(\.namedTLS), registry: config.telemetry.registry, logger: logger
        ) {
            await loops.drainTLS()
        }
        async let _: Void = HeapTrimmer.watch(limit)
        running.withLock { $0 = Running(config: config, loops: loops, listeners: listeners) }
        phase.withLock { $0 = .listening }
        await onListening(
            zip(sockets, config.configuration.listeners).map { socket, listener in
                BoundListener(
                    address: HostAndPort(host: listener.address.host, port: socket.port ?? listener.address.port),
                    isTLS: listener.tls != nil)
            })
        let isToldToStop = await ListeningSocket.waitForShutdown(sockets)
        phase.withLock { $0 = .draining }
        logger.notice(
            "draining", metadata: ["limit_seconds": "\(config.configuration.timeouts.drain.components.seconds)"])
        await ListenerHandover.close(sockets, limit: limit)
        let isCancelled = Task.isCancelled
        // Early or not, connections without an exchange are closed in good order, and nothing is cut off then.
        let isClean = await loops.drain(within: isCancelled ? Self.earlyDrain : config.configuration.timeouts.drain)
        if !isClean {
            logger.warning(
                isCancelled
                    ? "exchanges were cut off: the gateway ended early" : "exchanges were cut off at the drain limit")
        }
        await loops.stop()
        phase.withLock { $0 = .stopped }
        guard isToldToStop else {
            throw ListenerError(description: "a listening socket was closed by the system (start the gateway again)")
        }
    }

    /// How long a gateway that ends early, because another part of it has failed, waits for its connections.
    private static let earlyDrain = Duration.milliseconds(50)

    /// Makes everything ready, and reads all files, before anything listens: where another gateway listens on the same
    /// addresses, one that cannot start takes no connection away from it.
    private func makeListeners(loops: LoopContextGroup, limit: ConnectionLimit) throws -> [Listener] {
        let addresses = PerClientConnectionLimit(
            config.configuration.limits.connectionsPerAddress, exempt: config.configuration.trustedPeers)
        let rejections = RejectionCounters(config.telemetry.metrics)
        return try config.configuration.listeners.enumerated().map { index, configuration in
            try Listener(
                configuration, index: index, loops: loops, limit: limit, addresses: addresses, rejections: rejections,
                logger: logger
            )
        }
    }

    /// Begins to listen on all addresses, or on none.
    private func bind(
        _ listeners: [Listener], on group: MultiThreadedEventLoopGroup
    ) async throws -> [ListeningSocket] {
        var sockets: [ListeningSocket] = []
        do {
            for listener in listeners {
                sockets.append(
                    try await listener.bind(on: group, beside: sockets, takesOverListeners: takesOverListeners))
            }
        } catch {
            for socket in sockets { try? await socket.channel.close() }
            throw error
        }
        return sockets
    }

    /// How many connections there may be: as many as configured, or as the process has descriptors for.
    private func connectionLimit() -> Int {
        let configured = config.configuration.limits.connections
        guard let descriptors = FileDescriptorLimit.raiseToHardLimit() else { return configured }
        let possible = descriptors.connections(
            beside: config.configuration.upstreams.reduce(0) { $0 + $1.pool.maxConnections })
        guard possible < configured else { return configured }
        logger.warning(
            "fewer connections are accepted than configured: the process may not open enough files",
            metadata: [
                "configured": "\(configured)", "limit": "\(possible)",
                "descriptors": "\(descriptors.total)",
            ])
        return possible
    }
}

extension GatewayServer {
    /// Goes over to other tables and certificates while connections go on: all of it or nothing. Requests under way
    /// finish with what they began with; tunnels and event streams end unless their route stays what it was. Where
    /// clients have to show other certificates than before, or another version of TLS, those that are connected over TLS
    /// are asked to connect again: answers say `Connection: close`, HTTP/2 says GOAWAY.
    ///
    /// Listeners, the session store, limits on connections, the number of event loops and trusted peers stay what they
    /// were at the start; whoever makes the tables sees to it that their plan says the same.
    /// - Parameter onRetired: Is called once the last exchange with the old tables has ended.
    /// - Throws: ``ListenerError`` if certificates cannot be used, or if the gateway does not listen (yet, or any more).
    public func apply(
        _ config: ConfigSnapshot, onRetired: @escaping @Sendable () -> Void = {}
    ) async throws {
        guard isReady, let standing = running.withLock({ $0 }) else {
            throw ListenerError(description: "the gateway is not listening (try again once it does)")
        }
        // First everything that can fail.
        var changes: [TLSListener.PendingUpdate] = []
        for (listener, configuration) in zip(standing.listeners, config.configuration.listeners) {
            guard let tls = listener.namedTLS?.tls, let configuration = configuration.tls else { continue }
            changes.append(try tls.prepare(configuration))
        }
        // What keeps clients out comes before the tables, and what lets them in comes after: at no moment may somebody
        // pass whom neither the old nor the new configuration lets pass.
        var asksForOther = false
        for change in changes where !change.relaxesClientAuth { asksForOther = change.commit() || asksForOther }
        self.running.withLock { $0?.config = config }
        try await standing.loops.apply(config, onRetired: onRetired)
        for change in changes where change.relaxesClientAuth { asksForOther = change.commit() || asksForOther }
        // Who stands in the door shows what is asked for now.
        if asksForOther { await standing.loops.drainTLS() }
    }

    /// How the upstreams do, in the order of the configuration that is in effect.
    public func upstreamStatus() -> [UpstreamStatus] {
        let config = running.withLock { $0?.config } ?? config
        return config.upstreams.map(\.status)
    }

    /// The certificates that new connections are shown.
    public func certificates() -> [CertificateStatus] {
        let listeners = running.withLock { $0?.listeners } ?? []
        return listeners.compactMap(\.namedTLS).flatMap { name, tls in
            tls.certificates.map {
                CertificateStatus(
                    listener: name, file: $0.file, names: $0.names,
                    notAfter: Timestamp(seconds: $0.notAfter))
            }
        }
    }
}

/// Why a listener does not stand.
public struct ListenerError: ConfigFindingError, CustomStringConvertible {
    /// Which, why, and what to do.
    public let description: String
    /// The same with the key of the value that is to blame; `nil` where none is.
    public let finding: ConfigFinding?

    init(description: String) {
        self.description = description
        finding = nil
    }

    init(_ finding: ConfigFinding) {
        description = finding.sentence
        self.finding = finding
    }
}
