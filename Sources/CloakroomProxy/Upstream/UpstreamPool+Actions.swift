import CloakroomCore

/// Performs what the state machine decides, and notifies the pools of other event loops.
extension UpstreamPool {
    func perform(_ action: Machine.ConnectionAction) {
        switch action {
        case .nothing: break
        case .keep(let connection): connection.becomeIdle()
        case .handOver(let connection, let waiter):
            handOver(connection, to: waiter)
            if protocolVersion.allowsHTTP2 { serveFurther(after: connection) }
        case .close(let connection, let permit):
            connection.becomeIdle()
            connection.evict()
            perform(permit)
        case .permit(let permit): perform(permit)
        }
    }

    func handOver(_ link: UpstreamLink, to waiter: Waiter) {
        if let lease = use(link, for: waiter) { return waiter.delegate.upstreamConnected(lease) }
        hasNoRoom(link)
        left(waiter)
        waiter.delegate.upstreamHasNoRoom()
    }

    func perform(_ action: PermitAction) {
        switch action {
        case .nothing: break
        case .connect(let attempt): connect(attempt)
        case .wake(let loop): wake(loop, .permit)
        case .askOthers: askOthers()
        }
    }

    func askOthers() {
        for loop in upstream.targets.permits(forTunnels: areTunnels).connections.holders where loop != context.index {
            wake(loop, .starved)
        }
    }

    func close(_ closed: ClosedConnections<UpstreamLink>) {
        for connection in closed.connections { connection.evict() }
        for loop in closed.wakes { wake(loop, .permit) }
    }

    func wake(_ loop: Int, _ event: PoolEvent) {
        event.send(to: loop, of: upstream.targets, areTunnels: areTunnels, by: context.neighbours)
    }

    /// Another event loop waits for a permit.
    func starved() {
        perform(machine.starved())
    }

    /// A permit may be available.
    func permitAvailable() {
        while mayConnect {
            let connecting = machine.connectingCount
            let action = machine.permitAvailable()
            perform(action)
            // The attempt may have ended at once.
            guard case .connect = action, machine.connectingCount > connecting else { return }
        }
        perform(machine.passOnPermit())
    }
}

/// What the pools of an upstream on one event loop cause on another one.
enum PoolEvent {
    /// A permit may be available.
    case permit
    /// A request may begin.
    case place
    /// The event loop that sent it waits for a permit.
    case starved

    /// Notifies the pools of an upstream on an event loop; if it has none any more, the next loop that waits.
    /// - Parameter areTunnels: Whether permits are meant that belong to connections for WebSockets.
    func send(to loop: Int, of targets: UpstreamTargets, areTunnels: Bool, by neighbours: LoopNeighbours) {
        neighbours.send(to: loop) { context in
            let pools = context.pools(of: targets)
            for pool in pools {
                let holder = areTunnels ? pool.tunnels : pool
                switch self {
                case .permit: holder?.permitAvailable()
                case .place:
                    pool.placeAvailable()
                    pool.tunnels?.placeAvailable()
                case .starved: holder?.starved()
                }
            }
            guard pools.isEmpty, let next = next(after: loop, of: targets, areTunnels: areTunnels) else { return }
            send(to: next, of: targets, areTunnels: areTunnels, by: context.neighbours)
        }
    }

    private func next(after loop: Int, of targets: UpstreamTargets, areTunnels: Bool) -> Int? {
        switch self {
        case .permit:
            targets.permits(forTunnels: areTunnels).connections.nextWaiting(after: loop)
        case .place: targets.board.held.removeNext(after: loop)
        case .starved: nil
        }
    }
}
