import CloakroomCore
import NIOCore

/// Limits of requests in flight. A request beyond them is held: it waits in the queue although connections may be idle.
///
/// A place is the right to be in flight. The request that is served next takes one before; event loops that have held
/// requests get the places that end in turns, so that a loop without requests in flight is not left out.
extension UpstreamPool {
    /// Whether requests of other event loops are held: a new request has to wait after them.
    var isPlaceAwaited: Bool { upstream.targets.board.held.containsOther(than: context.index) }

    /// Whether the waiter that has waited longest may be served. Takes a place for it.
    /// - Parameter isPassedOn: Whether the place that has just ended is for another event loop.
    func mayServe(isPassedOn: Bool = false) -> Bool {
        guard limitsInFlight else { return !isPassedOn }
        let board = upstream.targets.board
        return machine.updateOldest { waiter in
            if !waiter.isCounted, !isPassedOn { waiter.isCounted = board.enter() }
            return waiter.isCounted
        } ?? true
    }

    /// Whether a connection with room serves the waiter that has waited longest.
    var service: PoolService { mayServe() ? .permitted : .held }

    /// Whether a connection whose lease has ended serves the waiter that has waited longest: not if the request is sent
    /// again because of the same target.
    func service(of connection: UpstreamConnection, isPassedOn: Bool) -> PoolService {
        if machine.oldestWaiter?.tried.contains(connection.slot) == true { return .unsuitable }
        return mayServe(isPassedOn: isPassedOn) ? .permitted : .held
    }

    /// Whether connections can be established for waiters: for held ones, no more than there are places.
    var mayConnect: Bool {
        guard machine.isHeld, limitsInFlight else { return true }
        let hasPlace = machine.oldestWaiter?.isCounted ?? false
        return machine.connectingCount - (hasPlace ? 1 : 0) < upstream.targets.board.room
    }

    /// Serves held requests.
    /// - Parameter isPassedOn: Whether the place that has just ended is for another event loop.
    func serveHeld(isPassedOn: Bool) {
        while machine.isHeld, mayServe(isPassedOn: isPassedOn), case .target(let choice) = pick(tried: .none) {
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
        let board = upstream.targets.board
        guard hasLimits, board.held.insert(context.index), board.room > 0, limitsInFlight else { return }
        // The place ended before the registration. Not at once: the caller has not noted yet that its request waits.
        context.eventLoop.assumeIsolated().execute { [self] in
            context.updateTime()
            placeAvailable()
        }
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
        let board = upstream.targets.board
        guard board.room > 0, let loop = board.held.removeNext(after: context.index) else { return false }
        wake(loop, .place)
        return true
    }
}
