import CloakroomCore

/// Limits of requests in flight. A request beyond them is held: it waits in the queue although connections may be idle.
///
/// Event loops that have held requests get the places that end in turns, so that a loop without requests in flight is
/// not left out.
extension UpstreamPool {
    /// Whether a connection whose lease has ended serves the waiter that has waited longest: not if the request is sent
    /// again because of the same target.
    /// - Parameter isPassedOn: Whether the place that has just ended is for another event loop.
    func service(of connection: UpstreamConnection, isPassedOn: Bool) -> PoolService {
        if machine.oldestWaiter?.tried.contains(connection.slot) == true { return .unsuitable }
        return isPassedOn ? .held : .permitted
    }

    /// Whether a target may get a request of those that wait. Only for connections with several streams: others get one
    /// after each that has ended.
    func mayUse(_ target: TargetRuntime) -> Bool {
        (target.state.word.isUsable || isPanicking) && (targetLimit == 0 || target.state.inFlight < targetLimit)
    }

    /// Whether connections can be established for waiters: for held ones, no more than the targets have room for.
    var mayConnect: Bool {
        guard machine.isHeld, machine.connectingCount > 0 else { return true }
        let room = targets.table.entries.reduce(0) { $0 + max(targetLimit - $1.state.inFlight, 0) }
        return machine.connectingCount < room
    }

    /// Serves held requests.
    /// - Parameter isPassedOn: Whether the place that has just ended is for another event loop.
    func serveHeld(isPassedOn: Bool) {
        while machine.isHeld, !isPassedOn, case .target(let choice) = pick(tried: .none) {
            let action = machine.serve(choice)
            abandon(choice)
            guard case .handOver = action else {
                // A target has room, but none of its connections is idle.
                permitAvailable()
                break
            }
            perform(action)
        }
        if machine.isHeld { awaitPlace() }
    }

    /// Registers the event loop for the next place that ends.
    func awaitPlace() {
        if targetLimit > 0 { upstream.targets.board.held.insert(context.index) }
    }

    /// A place may be available: serves held requests, or notifies the next event loop that has some.
    func placeAvailable() {
        upstream.targets.board.held.remove(context.index)
        if machine.isHeld { serveHeld(isPassedOn: false) }
        if !machine.isHeld { _ = passOnPlace() }
    }

    /// Notifies the next event loop that has held requests.
    /// - Returns: Whether there is one.
    func passOnPlace() -> Bool {
        guard let loop = upstream.targets.board.held.removeNext(after: context.index) else { return false }
        wake(loop, .place)
        return true
    }
}
