import CloakroomCore
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// This process's client of the server or of the cluster: connects, reconnects, and sends commands while there is a
/// connection to the server of their slot.
///
/// Without a connection, commands fail immediately. They are not queued, so a server that has just recovered receives
/// only the commands of that moment. A command of which the result is unknown is never sent again.
///
/// Folder `Connection/`: finds the server, connects, authenticates, reconnects, and matches replies to commands.
final class ValkeyClient: Sendable {
    private let configuration: ValkeyConfiguration
    private let eventLoop: any EventLoop
    private let connector: ValkeyConnector
    private let log: ValkeyLog
    private let routes = SlotRoutes()
    private let cluster = Mutex<NIOLoopBound<ClusterCoordinator>?>(nil)
    private let redirected: RedirectedCommands
    private let durability: LinkDurability?
    /// `nil` without sentinels.
    private let sentinels: SentinelWatch?

    /// - Parameters:
    ///   - durabilityLog: Counts and logs unconfirmed writes; `nil` if no write waits for replicas of the server.
    ///   - onUnconfirmed: Called once a second with the time since the sentinels have confirmed the server in use.
    init(
        _ configuration: ValkeyConfiguration, tls: NIOSSLContext?, eventLoop: any EventLoop, logger: Logger,
        durabilityLog: DurabilityLog? = nil, onUnconfirmed: @escaping @Sendable (Duration) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.eventLoop = eventLoop
        connector = ValkeyConnector(configuration: configuration, tls: tls, eventLoop: eventLoop)
        log = ValkeyLog(configuration, logger)
        sentinels = SentinelWatch(configuration, connector, log: log, onUnconfirmed: onUnconfirmed)
        redirected = RedirectedCommands(timeout: configuration.timeout)
        durability = durabilityLog.flatMap { log in
            DurableWriter.Options(configuration).map { LinkDurability(options: $0, log: log) }
        }
    }

    /// Why connections are missing; `nil` if none is, or if they are missing for different reasons.
    var outage: SessionStoreError.Reason? { log.outage }

    /// Sends commands immediately, each to the server of its slot, and waits for all replies.
    /// - Parameter isDurable: Whether the commands change data that a failover should not lose.
    /// - Returns: The replies in the order of the commands.
    func send(_ commands: [ValkeyCommand], isDurable: Bool = false) async -> [Result<RESPValue, ValkeyCommandError>] {
        guard let link = routes.commonLink(of: commands) else {
            return await redirected.complete(
                commands, Array(repeating: nil, count: commands.count), isDurable: isDurable, using: self)
        }
        let replies = await send(commands, over: link, isDurable: isDurable)
        guard replies.contains(where: RedirectedCommands.isNotExecuted), isCluster else { return replies }
        return await redirected.complete(
            commands, replies.map { RoutedReply(reply: $0, sender: link.address) }, isDurable: isDurable, using: self)
    }

    private var isCluster: Bool { cluster.withLock { $0 != nil } }

    /// Sends commands to one server.
    func send(
        _ commands: [ValkeyCommand], over link: ValkeyLink, isDurable: Bool
    ) async -> [Result<RESPValue, ValkeyCommandError>] {
        let replies = await link.send(commands, isDurable: isDurable)
        logRejections(of: commands, replies, by: link)
        return replies
    }

    /// Sends a command to a server that is receiving its slot.
    func sendAsking(
        _ command: ValkeyCommand, over link: ValkeyLink, isDurable: Bool
    ) async -> Result<RESPValue, ValkeyCommandError> {
        let reply = await link.sendAsking(command, isDurable: isDurable)
        logRejections(of: [command], [reply], by: link)
        return reply
    }

    private func logRejections(
        of commands: [ValkeyCommand], _ replies: [Result<RESPValue, ValkeyCommandError>], by link: ValkeyLink
    ) {
        for (command, reply) in zip(commands, replies) {
            if case .failure(.rejected(let error)) = reply, error.code == "NOPERM" {
                let address = "\(link.address)"
                log.rejected(command, error, address, server: isCluster ? address : "")
            }
        }
    }

    /// Stays connected until the task is cancelled.
    /// - Parameter failover: Called when a server was replaced.
    func run(_ listener: any ValkeyPushDelegate, failover: (any ValkeyFailoverDelegate)? = nil) async {
        guard let sentinels else { return await stayConnected(listener, failover) }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await sentinels.run() }
            await stayConnected(listener, failover)
            group.cancelAll()
        }
    }

    private func stayConnected(_ listener: any ValkeyPushDelegate, _ failover: (any ValkeyFailoverDelegate)?) async {
        var delay = ReconnectDelay()
        var generator = SystemRandomNumberGenerator()
        var hadConnection = false
        // Whether the server was unavailable at some time. A first attempt that failed counts: the server may have been
        // replaced in the meantime.
        var hadOutage = false
        while !Task.isCancelled {
            if configuration.topology == .cluster {
                return await runCluster(listener, failover)
            }
            do throws(ValkeyDisconnectReason) {
                guard let connection = try await connect() else {
                    return await runCluster(listener, failover, afterFailure: hadOutage)
                }
                let start = ContinuousClock.now
                let loss = await use(connection, listener, hadConnection ? failover : nil, afterOutage: hadOutage)
                hadConnection = true
                hadOutage = true
                delay.connectionEnded(after: ContinuousClock.now - start)
                if !Task.isCancelled { log.disconnected(loss, connection.address) }
            } catch {
                hadOutage = true
                if !Task.isCancelled { log.disconnected(error, nil) }
            }
            let pause = delay.next(using: &generator)
            if let sentinels { await sentinels.pause(pause) } else { try? await Task.sleep(for: pause) }
        }
    }

    /// One attempt.
    /// - Returns: `nil` if the server belongs to a cluster, and the topology is not configured.
    private func connect() async throws(ValkeyDisconnectReason) -> ValkeyConnection? {
        guard let sentinels else { return try await connector.connect() }
        return try await sentinels.connect()
    }

    /// Uses the connection to the only server for commands until it ends.
    private func use(
        _ connection: ValkeyConnection, _ listener: any ValkeyPushDelegate,
        _ failover: (any ValkeyFailoverDelegate)?, afterOutage: Bool
    ) async -> ValkeyDisconnectReason {
        await withTaskCancellationHandler {
            let (connector, address) = (connector, connection.server)
            let link = ValkeyLink(address: address, connection: connection, durability: durability) {
                () async throws(ValkeyDisconnectReason) in
                try await connector.connectUntracked(to: ClusterNode(address: address))
            }
            sentinels?.use(connection)
            defer { sentinels?.ended() }
            if let failover { await failover.restore([HashSlot.all], to: link) }
            // Set before the listener is notified, so that a notified listener finds the connection. Data that is read
            // in between becomes stale with the notification, like all data that was read before.
            routes.setOnly(link)
            log.connected(connection.address)
            _ = await connection.activate(to: OnlyLinkEvents(listener: listener, afterOutage: afterOutage))
            let loss = (try? await connection.closed.get()) ?? .unreachable
            routes.setOnly(nil)
            return loss
        } onCancel: {
            connection.close(.closed)
        }
    }

    /// Stays connected to the cluster until the task is cancelled.
    private func runCluster(
        _ listener: any ValkeyPushDelegate, _ failover: (any ValkeyFailoverDelegate)?, afterFailure: Bool = false
    ) async {
        let (jobs, continuation) = AsyncStream<ClusterCoordinator.Job>.makeStream()
        let (connector, routes, log, eventLoop) = (connector, routes, log, eventLoop)
        let durability = durability
        let seeds = configuration.addresses
        let started = try? await eventLoop.submit {
            let coordinator = ClusterCoordinator(
                connector, seeds: seeds, eventLoop: eventLoop, routes: routes, listener: listener,
                failover: failover, durability: durability, log: log, afterFailure: afterFailure, jobs: continuation)
            coordinator.start()
            return NIOLoopBound(coordinator, eventLoop: eventLoop)
        }.get()
        guard let coordinator = started else { return }
        cluster.withLock { $0 = coordinator }
        await withDiscardingTaskGroup { group in
            // Ends when the task is cancelled.
            for await job in jobs { group.addTask { await job() } }
            try? await eventLoop.submit { coordinator.value.stop() }.get()
            group.cancelAll()
        }
        // Closed in order before this.
        try? await eventLoop.submit {}.get()
    }

    /// The link to the server of a slot, if there is one.
    func link(of slot: UInt16) -> ValkeyLink? {
        if case .link(let link) = routes.route(slot) { link } else { nil }
    }

    /// The route of a command now.
    func route(_ command: ValkeyCommand) -> SlotRoutes.Route { routes.route(command.slot) }

    /// Reports that a server redirected a command.
    /// - Returns: The link for this command, if it may be sent there after `ASKING`.
    func follow(_ redirection: ClusterRedirection, from address: HostAndPort) async -> ValkeyLink? {
        guard let coordinator = cluster.withLock({ $0 }) else { return nil }
        return try? await eventLoop.submit { coordinator.value.redirected(redirection, by: address) }.get()
    }
}

/// Reports the state of the only link as that of all slots.
private struct OnlyLinkEvents: ValkeyLinkDelegate {
    let listener: any ValkeyPushDelegate
    let afterOutage: Bool

    func linkChanged(isUp: Bool) {
        listener.slotsChanged([HashSlot.all], areTrusted: isUp, afterOutage: isUp && afterOutage)
    }

    func pushed(_ message: [RESPValue]) {
        listener.pushed(message)
    }
}

/// The delays between attempts to connect.
struct ReconnectDelay: Sendable {
    private static let backoff = ExponentialBackoff(initial: .milliseconds(50), maximum: .seconds(5), jitter: 1)
    /// A connection that lasted this long resets the back-off.
    private static let resetAfter = Duration.seconds(5)

    private var failures = 0

    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        failures += 1
        return Self.backoff.delay(afterFailures: failures, random: generator.next())
    }

    /// Records how long a connection has lasted.
    mutating func connectionEnded(after time: Duration) {
        if time >= Self.resetAfter { failures = 0 }
    }
}
