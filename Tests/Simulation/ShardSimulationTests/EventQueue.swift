import TestSupport

/// An event at a point in time. Numbers are indices into the arrays of ``World``.
enum Event {
    /// The client of a session sends a request and schedules its next one.
    case request(session: Int)
    case arrive(session: Int, gateway: Int, isProbe: Bool)
    case login(Int)
    /// A browser returns from a provider; clients make attempts to sign in.
    case callback(Int)
    case attempts(Int)
    /// A command reaches a server, its reply a gateway.
    case command(call: Int, node: Int)
    case reply(call: Int, Reply)
    case timeout(call: Int)
    case waitTimeout(call: Int)
    /// The connection of a command was lost; a command that was not executed is sent again.
    case lost(call: Int)
    case resend(call: Int)
    /// A server reports to a gateway that the value of a slot changed.
    case push(gateway: Int, node: Int, link: Int, slot: Int)
    /// A write reaches the replica; the replica's confirmation reaches the primary.
    case replicate(from: Int, stream: Int, effect: Int)
    case confirm(node: Int, stream: Int, effect: Int)
    case fault(Fault)
    /// The replica of a failed primary may be promoted.
    case election(shard: Int, failed: Int, failure: Int)
    /// A server learns the topology that the majority agrees on.
    case gossip(node: Int)
    case wake(node: Int)
    case restart(node: Int)
    case heal(isolation: Int)
    case moveKey
    case assignSlot
    case start(gateway: Int)
    case resume(gateway: Int)
    case tick(gateway: Int, process: Int)
    /// A question for the topology over a connection of its own, and its result; `nil` for no reply.
    case askSeed(gateway: Int, process: Int, node: Int)
    case seedReply(gateway: Int, process: Int, owners: [Int]?)
    case connect(gateway: Int, node: Int, link: Int)
    case linkReset(gateway: Int, node: Int, link: Int)
    /// The end of a repetition of the journal, and the beginning of a later one.
    case restored(gateway: Int, process: Int, number: UInt32)
    case repeatLater(gateway: Int, process: Int)
    /// The call of a refresh reaches the upstream, its response the gateway.
    case spend(refresh: Int)
    case spent(refresh: Int, pair: Int?)
    case wakeRefresh(Int)
    case carryOut(refresh: Int)
    /// From here on no faults occur.
    case calm
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
