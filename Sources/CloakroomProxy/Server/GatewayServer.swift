public import CloakroomCore
import CloakroomTelemetry
package import Logging
import NIOCore
import NIOPosix
public import ServiceLifecycle
import Synchronization

/// Accepts and serves clients until shutdown, then drains their connections.
///
/// Folder `Server/`: starts and stops the listeners and event loops, and holds what one loop shares between its
/// connections.
public final class GatewayServer: Service, Unprintable {
    /// The address of one listener.
    public struct BoundListener: Sendable, Equatable {
        /// The bound address and port.
        public let address: HostAndPort
        /// Whether the listener uses TLS.
        public let isTLS: Bool
    }

    /// The initial configuration. The current one is in ``running``.
    private let config: ConfigSnapshot
    /// Whether it shares addresses with a gateway that is already listening on them.
    private let sharesListeners: Bool
    /// Sockets of the service manager.
    private let inherited: InheritedSockets
    /// The source of the times that deadlines are compared with.
    private let time: LoopTime
    private let logger: Logger
    private let onListening: @Sendable ([BoundListener]) async -> Void
    private let phase = Mutex(Phase.starting)
    private let running = Mutex<Running?>(nil)
    private let areTargetsChecked = FlagSetOnce()

    private enum Phase {
        case starting, listening, draining, stopped
    }

    /// State that a reload changes.
    private struct Running {
        var config: ConfigSnapshot
        let loops: LoopContextGroup
        let listeners: [Listener]
    }

    /// Creates a server.
    /// - Parameters:
    ///   - sharesListeners: Whether it shares addresses with another gateway of the same user that is already listening on
    ///     them, in order to replace it. Otherwise an address in use is an error.
    ///   - inherited: Sockets that the service manager has bound.
    ///   - onListening: Called when all listeners are bound and before the first connection is accepted, so that the lines
    ///     that it logs precede those of requests.
    ///   - time: The source of the times that deadlines are compared with.
    package init(
        config: ConfigSnapshot, sharesListeners: Bool = false, inherited: InheritedSockets = InheritedSockets(),
        time: LoopTime = .system, logger: Logger,
        onListening: @escaping @Sendable ([BoundListener]) async -> Void = { _ in }
    ) {
        self.config = config
        self.sharesListeners = sharesListeners
        self.inherited = inherited
        self.time = time
        self.logger = logger
        self.onListening = onListening
    }

    /// Whether it accepts requests: all listeners are bound, the first round of health checks is complete, and shutdown
    /// has not begun.
    public var isReady: Bool {
        areTargetsChecked.isSet && isListening
    }

    /// Whether all listeners are bound, and shutdown has not begun.
    private var isListening: Bool {
        phase.withLock { if case .listening = $0 { true } else { false } }
    }

    /// Whether shutdown has begun and connections are being drained.
    public var isDraining: Bool {
        phase.withLock { if case .draining = $0 { true } else { false } }
    }

    /// Serves until graceful shutdown or cancellation.
    /// - Throws: ``ListenerError`` if a listener cannot be bound; it names the listener and the reason.
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
        config.activateTargets(now: time.now())
        let limit = ConnectionLimit(config.configuration.limits.connections)
        let loops = try await LoopContextGroup(
            group: group, config: config, loopCount: loopCount, limit: limit, time: time)
        let connections = config.telemetry.metrics.listeners
        config.telemetry.registry.onScrape { connections.open.set(Int64(limit.count)) }
        config.telemetry.registry.onScrape { [weak self] in
            guard let self, let rates = currentConfig.rates else { return }
            config.telemetry.metrics.clientLimits.show(rates.table, now: time.now())
        }
        let listeners: [Listener]
        let sockets: [ListeningSocket]
        do {
            listeners = try makeListeners(loops: loops, limit: limit)
            sockets = try await bind(listeners, on: group)
        } catch {
            await loops.stop()
            throw error
        }
        // Runs until this function returns, which cancels it.
        async let _: Void = CertificateReloader.watch(
            listeners.compactMap(\.namedTLS), registry: config.telemetry.registry, logger: logger
        ) {
            await loops.drainTLS()
        }
        async let _: Void = HeapTrimmer.watch(limit)
        async let _: Void = RateSettlement(
            metrics: config.telemetry.metrics.clientLimits, time: time, logger: logger
        ).run { self.currentConfig.rates }
        async let _: Void = FileFolder.watch({ self.currentConfig.folders }, logger: logger)
        async let _: Void = UpstreamSupervisor(
            { self.currentConfig.upstreams }, loops: loops,
            reporter: UpstreamReporter(logger), isReady: areTargetsChecked, time: time
        ).run()
        running.withLock { $0 = Running(config: config, loops: loops, listeners: listeners) }
        phase.withLock { $0 = .listening }
        await onListening(
            zip(sockets, config.configuration.listeners).map { socket, listener in
                BoundListener(
                    address: HostAndPort(host: listener.address.host, port: socket.port ?? listener.address.port),
                    isTLS: listener.tls != nil)
            })
        for socket in sockets { await socket.accept() }
        let isGracefulShutdown = await ListeningSocket.waitForShutdown(sockets)
        phase.withLock { $0 = .draining }
        logger.notice(
            "draining",
            metadata: ["limit_seconds": .stringConvertible(config.configuration.timeouts.drain.components.seconds)])
        await ListenerHandover.close(sockets, limit: limit)
        let isCancelled = Task.isCancelled
        // Even on early shutdown, connections without an exchange are closed in order, without aborting a response.
        let isClean = await loops.drain(
            within: isCancelled ? Self.earlyDrain : config.configuration.timeouts.drain,
            grace: isCancelled ? .zero : Self.grace)
        if !isClean {
            logger.warning(
                isCancelled
                    ? "early shutdown, remaining requests aborted" : "drain timeout reached, remaining requests aborted"
            )
        }
        await loops.stop()
        phase.withLock { $0 = .stopped }
        guard isGracefulShutdown else {
            throw ListenerError(description: "a listening socket was closed by the system (restart the gateway)")
        }
    }

    /// For how long connections are kept that wait for a request when draining begins. A client may have sent one that has
    /// not arrived; its response has `Connection: close`. Longer than the pause of a client with a request after another.
    private static let grace = Duration.seconds(1)

    /// Drain timeout of an early shutdown, after the failure of another service.
    private static let earlyDrain = Duration.milliseconds(50)

    /// Prepares all listeners and reads all files before any address is bound: if addresses are shared with another
    /// gateway, one that fails to start must not receive connections.
    private func makeListeners(loops: LoopContextGroup, limit: ConnectionLimit) throws -> [Listener] {
        let addresses = PerClientConnectionLimit(
            config.configuration.limits.connectionsPerAddress,
            countsRequests: config.configuration.limits.inFlightPerAddress > 0,
            exempt: config.configuration.trustedProxies)
        let rejections = ConnectionRejection.counters(config.telemetry.metrics)
        config.telemetry.metrics.listeners.limit.set(Int64(limit.limit))
        return try config.configuration.listeners.enumerated().map { index, configuration in
            try Listener(
                configuration, index: index, loops: loops, limit: limit, addresses: addresses, rejections: rejections,
                metrics: config.telemetry.metrics.listeners, logger: logger
            )
        }
    }

    /// Binds all addresses, or none.
    private func bind(
        _ listeners: [Listener], on group: MultiThreadedEventLoopGroup
    ) async throws -> [ListeningSocket] {
        var sockets: [ListeningSocket] = []
        do {
            for listener in listeners {
                sockets.append(
                    try await listener.bind(
                        on: group, beside: sockets, sharesListeners: sharesListeners, inherited: inherited))
            }
        } catch {
            for socket in sockets { try? await socket.channel.close() }
            throw error
        }
        return sockets
    }
}

extension GatewayServer {
    /// Applies a new configuration and certificates without closing connections. Atomic: all of it or nothing. Requests
    /// in progress complete with the old configuration; tunnels and event streams end unless their route is unchanged.
    /// If the requirements for client certificates or the minimum TLS version have changed, TLS clients are asked to
    /// reconnect, by `Connection: close` in HTTP/1.1 and GOAWAY in HTTP/2.
    ///
    /// Listeners, the session store, connection limits, the number of event loops and trusted peers are fixed at the
    /// start; the caller ensures that the new configuration has the same values.
    /// - Parameter onRetired: Called when the last exchange with the old configuration has ended.
    /// - Throws: ``ListenerError`` if certificates are invalid, or if the gateway is not listening.
    public func apply(
        _ config: ConfigSnapshot, onRetired: @escaping @Sendable () -> Void = {}
    ) async throws {
        guard isListening, let standing = running.withLock({ $0 }) else {
            throw ListenerError(description: "the gateway is not listening (try again when it is listening)")
        }
        // First all steps that can fail.
        var changes: [TLSListener.PendingUpdate] = []
        for (listener, configuration) in zip(standing.listeners, config.configuration.listeners) {
            guard let tls = listener.namedTLS?.tls, let configuration = configuration.tls else { continue }
            changes.append(try tls.prepare(configuration))
        }
        // Stricter client requirements are activated before the configuration, relaxed ones after it. At no time is a
        // client admitted that both the old and the new configuration would reject.
        var asksForOther = false
        for change in changes where !change.relaxesClientAuth { asksForOther = change.commit() || asksForOther }
        self.running.withLock { $0?.config = config }
        config.activateTargets(now: time.now())
        try await standing.loops.apply(config, onRetired: onRetired)
        for change in changes where change.relaxesClientAuth { asksForOther = change.commit() || asksForOther }
        // Connections still in the TLS handshake must meet the new requirements.
        if asksForOther { await standing.loops.drainTLS() }
    }

    /// Returns when every event loop has run a task; never returns while one is blocked. Without event loops, before the
    /// start, it returns at once.
    public func passThroughLoops() async { await running.withLock { $0?.loops }?.passThrough() }

    /// Advances the time of a server that was created with it, and checks the deadlines of all event loops once.
    package func advance(_ time: SteppedTime, by step: Duration) async {
        time.advance(by: step)
        await running.withLock { $0?.loops }?.tick()
    }

    /// Number of connections accepted since the start.
    package func acceptedConnections() async -> Int {
        guard let loops = running.withLock({ $0?.loops }) else { return 0 }
        let loop = loops.any
        return (try? await loop.submit { loops.context(of: loop)?.connectionLimit?.accepted ?? 0 }.get()) ?? 0
    }

    /// Status of the upstreams, in the order of the current configuration.
    public func upstreamStatus() -> [UpstreamStatus] {
        let now = time.now()
        let config = currentConfig
        return config.upstreams.indices.map { index in
            var status = config.upstreams[index].status(now: now)
            status.routes = config.configuration.routes.filter { $0.upstream == index }.map(\.name)
            status.signsUsersIn = config.configuration.accounts.upstream == index
            return status
        }
    }

    /// The targets of all upstreams of the current configuration, which the next one keeps if they are unchanged.
    public func upstreamTargets() -> [UpstreamTargets] { currentConfig.upstreams.map(\.targets) }

    package var currentConfig: ConfigSnapshot { running.withLock { $0?.config } ?? config }

    static func status(of tls: TLSListener, name: String) -> [CertificateStatus] {
        tls.certificates.map {
            CertificateStatus(
                listener: name, file: $0.file, names: $0.names, notAfter: WallTime(seconds: $0.notAfter))
        }
    }

    /// Certificates that new connections use.
    public func certificates() -> [CertificateStatus] {
        let listeners = running.withLock { $0?.listeners } ?? []
        return listeners.compactMap(\.namedTLS).flatMap { Self.status(of: $0.tls, name: $0.name) }
    }
}

/// Reason that a listener cannot be bound.
public struct ListenerError: ConfigFindingError, CustomStringConvertible {
    /// The listener, the reason and a suggestion.
    public let description: String
    /// The finding with the key of the invalid value; `nil` if no value is the cause.
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
