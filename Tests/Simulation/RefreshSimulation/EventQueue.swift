import TestSupport

/// An event at a point in time. Numbers are indices into the arrays of ``SimulationWorld``.
enum Event {
    /// A client sends a request and schedules its next one.
    case request(client: Int)
    /// A request reaches a replica. Probes arrive near the end, after a period without faults, and have to succeed.
    case arrive(session: Int, replica: Int, isProbe: Bool)
    /// A call reaches the store.
    case atStore(call: Int)
    /// The store's reply reaches the replica.
    case storeReply(call: Int, response: Int)
    /// A call reaches the upstream.
    case atUpstream(call: Int)
    /// The upstream's reply reaches the replica.
    case upstreamReply(call: Int, response: Int)
    /// The replica's timeout of a call expires.
    case callTimeout(call: Int)
    /// A replica is notified that another process changed a session.
    case notice(replica: Int, session: Int)
    /// The wait of a refresh is over.
    case wake(flight: Int)
    /// The replica of a refresh resumes after a pause between a decision and its execution.
    case carryOut(flight: Int)
    /// The user profile has been fetched and is to be saved under the lease of the refresh.
    case userFetched(flight: Int)
    /// A provider sends the browser of a login back to a replica.
    case callback(login: Int, replica: Int)
    /// A provider reports a logout to a replica.
    case logout(logout: Int, replica: Int)
    /// The provider stops waiting for the response to an attempt.
    case logoutTimeout(logout: Int, attempt: Int)
    /// A replica resumes after a pause.
    case resume(replica: Int)
    /// A replica restarts after a crash.
    case restart(replica: Int, life: Int)
    /// A replica detects that its connection to the store is lost.
    case linkDown(replica: Int, link: Int)
    /// A replica has a new connection to the store.
    case linkUp(replica: Int)
    /// The store is available again.
    case storeUp
    /// A fault, or an action of a user or operator.
    case disturbance(FaultInjection)
    /// From here on no faults occur.
    case calm
}

/// The scheduled events of the world.
enum FaultInjection {
    case crash(replica: Int)
    case pause(replica: Int)
    case partition(replica: Int)
    case storeOutage
    case clockJump(replica: Int)
    case signOut(session: Int)
    case signOutEverywhere(session: Int)
    case upstreamRevokes(session: Int)
}

/// Events in the order of their times; events at the same time keep their insertion order.
struct EventQueue {
    private var heap = EventHeap()
    /// The events by their number in the heap; numbers of past events are used again.
    private var events: [Event] = []
    private var free: [Int] = []

    mutating func push(_ event: Event, at time: Int64) {
        let number = free.popLast() ?? events.count
        if number < events.count { events[number] = event } else { events.append(event) }
        heap.push(number, at: UInt64(time))
    }

    mutating func pop() -> (time: Int64, event: Event)? {
        guard let (time, number) = heap.pop() else { return nil }
        free.append(number)
        return (Int64(time), events[number])
    }
}
