import CloakroomCore
import NIOCore

/// Carries out what ``ClusterTopology`` decides: connects, asks, routes commands, and reports which slots are trusted.
///
/// It belongs to one event loop, which also runs all links. So a lost link is reported before its commands fail, and
/// no event occurs between a decision and its effect.
final class ClusterCoordinator {
    /// Work outside the event loop.
    typealias Job = @Sendable () async -> Void

    private static let tickInterval = TimeAmount.milliseconds(50)

    private let connector: ValkeyConnector
    private let eventLoop: any EventLoop
    private let routes: SlotRoutes
    private let listener: any ValkeyPushDelegate
    private let failover: (any ValkeyFailoverDelegate)?
    private let durability: LinkDurability?
    private let log: ValkeyLog
    private let jobs: AsyncStream<Job>.Continuation
    private var topology: ClusterTopology
    private var links: [HostAndPort: ValkeyLink] = [:]
    private var timer: RepeatedTask?
    private var isStopped = false
    private var queue = CircularBuffer<ClusterTopology.Action>()
    private var isPerforming = false

    /// Must be called on the event loop.
    init(
        _ connector: ValkeyConnector, seeds: [HostAndPort], eventLoop: any EventLoop, routes: SlotRoutes,
        listener: any ValkeyPushDelegate, failover: (any ValkeyFailoverDelegate)?,
        durability: LinkDurability? = nil, log: ValkeyLog, afterFailure: Bool = false,
        jobs: AsyncStream<Job>.Continuation
    ) {
        self.connector = connector
        self.eventLoop = eventLoop
        self.routes = routes
        self.listener = listener
        self.failover = failover
        self.durability = durability
        self.log = log
        self.jobs = jobs
        topology = ClusterTopology(
            seeds: seeds, random: UInt64.random(in: 0 ... .max), now: eventLoop.now)
        topology.hadFailure = afterFailure
    }

    /// Begins to connect.
    func start() {
        perform(topology.tick(now: eventLoop.now))
        let this = NIOLoopBound(self, eventLoop: eventLoop)
        timer = eventLoop.scheduleRepeatedTask(initialDelay: Self.tickInterval, delay: Self.tickInterval) { _ in
            let this = this.value
            if !this.isStopped { this.perform(this.topology.tick(now: this.eventLoop.now)) }
        }
    }

    /// Closes all links.
    func stop() {
        timer?.cancel()
        for link in links.values { link.connection.close(.closed) }
        isStopped = true
        jobs.finish()
    }

    /// A server redirected a command.
    /// - Returns: The link for this command, if it may be sent there after `ASKING`.
    func redirected(_ redirection: ClusterRedirection, by address: HostAndPort) -> ValkeyLink? {
        guard !isStopped else { return nil }
        guard let target = redirection.address(from: address) else {
            perform(topology.redirected(redirection.slot, toUnknownBy: address, now: eventLoop.now))
            return nil
        }
        switch redirection.kind {
        case .moved:
            perform(topology.moved(redirection.slot, to: target, by: address, now: eventLoop.now))
            return nil
        case .ask:
            perform(topology.asking(redirection.slot, to: target, by: address, now: eventLoop.now))
            return links[target]
        }
    }

    /// Carries out actions in their order. Actions of events that occur in between follow.
    private func perform(_ actions: [ClusterTopology.Action]) {
        queue.append(contentsOf: actions)
        guard !isPerforming else { return }
        isPerforming = true
        defer { isPerforming = false }
        while let action = queue.popFirst() {
            switch action {
            case .connect(let node): connect(node)
            case .disconnect(let address):
                log.forgotten(server: "\(address)")
                links[address]?.connection.close(.closed)
            case .ask(let address): ask(address)
            case .askSeed(let address): askSeed(address)
            case .distrust(let slots): listener.slotsChanged(slots, areTrusted: false, afterOutage: false)
            case .route(let slots, let destination): routes.set(slots, destination)
            case .restore(let number, let slots, let address): restore(number, slots, address)
            case .trust(let slots, let afterOutage):
                listener.slotsChanged(slots, areTrusted: true, afterOutage: afterOutage)
            }
        }
    }

    /// Runs work outside the event loop, and then the next step on it.
    private func run<Value: Sendable>(
        _ work: @escaping @Sendable () async -> Value, then next: @escaping (ClusterCoordinator, Value) -> Void
    ) {
        let this = NIOLoopBound(self, eventLoop: eventLoop)
        let next = NIOLoopBound(next, eventLoop: eventLoop)
        let eventLoop = eventLoop
        jobs.yield {
            let value = await work()
            try? await eventLoop.submit { next.value(this.value, value) }.get()
        }
    }

    private func connect(_ node: ClusterNode) {
        let connector = connector
        run {
            await Result { () async throws(ValkeyDisconnectReason) in try await connector.connect(to: node) }
        } then: { this, result in
            switch result {
            case .success(let connection): this.use(connection, node)
            case .failure(let reason):
                guard !this.isStopped, reason != .closed else { return }
                this.log.disconnected(reason, "\(node.address)", server: "\(node.address)")
                this.perform(this.topology.linkLost(node.address, now: this.eventLoop.now))
            }
        }
    }

    private func use(_ connection: ValkeyConnection, _ node: ClusterNode) {
        guard !isStopped else { return connection.close(.closed) }
        let (address, connector, log) = (node.address, connector, log)
        let link = ValkeyLink(address: address, connection: connection, durability: durability) {
            () async throws(ValkeyDisconnectReason) in try await connector.connectUntracked(to: node)
        }
        links[address] = link
        routes.add(link)
        log.connected(connection.address, server: "\(address)")
        let this = NIOLoopBound(self, eventLoop: eventLoop)
        connection.closed.whenSuccess { reason in
            if reason != .closed { log.disconnected(reason, connection.address, server: "\(address)") }
        }
        if !connection.activateNow(to: LinkEvents(link: link, coordinator: this, listener: listener)) {
            linkChanged(link, isUp: false)
        }
    }

    /// A link is ready, or has ended.
    fileprivate func linkChanged(_ link: ValkeyLink, isUp: Bool) {
        guard links[link.address] === link else { return }
        if isUp {
            perform(topology.linkReady(link.address, now: eventLoop.now))
        } else {
            let actions = topology.linkLost(link.address, now: eventLoop.now)
            // In this order: not trusted before anything changes.
            for case .distrust(let slots) in actions {
                listener.slotsChanged(slots, areTrusted: false, afterOutage: false)
            }
            links[link.address] = nil
            routes.remove(link.address)
            perform(actions.filter { if case .distrust = $0 { false } else { true } })
        }
    }

    private func ask(_ address: HostAndPort) {
        guard let link = links[address] else { return }
        run {
            await link.connection.send([ValkeyConnector.clusterSlots]).first
        } then: { this, reply in
            // A link that was replaced in the meantime has asked again.
            guard !this.isStopped, this.links[address] === link else { return }
            switch reply {
            case .success(let value):
                do throws(ClusterSlotsError) {
                    let slots = try ClusterSlots(value, asked: address.host)
                    this.perform(this.topology.answered(address, slots, now: this.eventLoop.now))
                } catch {
                    link.connection.close(error.disconnectReason)
                }
            case .failure(.rejected(let error)):
                this.log.rejected(ValkeyConnector.clusterSlots, error, "\(address)", server: "\(address)")
                this.perform(this.topology.notAnswered(address))
            case .failure, nil: this.perform(this.topology.notAnswered(address))
            }
        }
    }

    private func askSeed(_ address: HostAndPort) {
        let connector = connector
        run {
            await Result { () async throws(ValkeyDisconnectReason) in try await connector.slots(from: address) }
        } then: { this, result in
            guard !this.isStopped else { return }
            switch result {
            case .success(let slots):
                this.log.resolved("\(address)")
                this.perform(this.topology.seedAnswered(slots, now: this.eventLoop.now))
            case .failure(.closed): break
            case .failure(let reason):
                this.log.disconnected(reason, "\(address)", server: ValkeyLog.seed("\(address)"))
                this.perform(this.topology.seedNotAnswered(now: this.eventLoop.now))
            }
        }
    }

    private func restore(_ number: UInt32, _ slots: [Range<Int>], _ address: HostAndPort) {
        guard let failover, let link = links[address] else {
            return perform(topology.restored(number, now: eventLoop.now))
        }
        run {
            await failover.restore(slots, to: link)
        } then: { this, _ in
            if !this.isStopped { this.perform(this.topology.restored(number, now: this.eventLoop.now)) }
        }
    }
}

/// Reports the events of one link.
private struct LinkEvents: ValkeyLinkDelegate {
    let link: ValkeyLink
    let coordinator: NIOLoopBound<ClusterCoordinator>
    let listener: any ValkeyPushDelegate

    func linkChanged(isUp: Bool) {
        coordinator.value.linkChanged(link, isUp: isUp)
    }

    func pushed(_ message: [RESPValue]) {
        listener.pushed(message)
    }
}
