/// What happens at some moment. Numbers are indices into the world's rows.
enum Event {
    /// A client sends a request, and will send another one later.
    case request(client: Int)
    /// A request reaches a replica. A probe comes near the end, when all has been well for a while, and has to succeed.
    case arrive(session: Int, replica: Int, isProbe: Bool)
    /// A call reaches the store.
    case atStore(call: Int)
    /// The store's answer reaches the replica.
    case storeReply(call: Int, response: Int)
    /// A call reaches the upstream.
    case atUpstream(call: Int)
    /// The upstream's answer reaches the replica.
    case upstreamReply(call: Int, response: Int)
    /// The replica has waited long enough for an answer.
    case callTimeout(call: Int)
    /// A replica is told that a session was changed by somebody else.
    case notice(replica: Int, session: Int)
    /// A flight has waited long enough.
    case wake(flight: Int)
    /// A flight's replica goes on after a pause between deciding and doing.
    case carryOut(flight: Int)
    /// The user's data have come, and are to be saved under the flight's lease.
    case userFetched(flight: Int)
    /// A replica goes on after a pause.
    case resume(replica: Int)
    /// A replica is there again after a crash.
    case restart(replica: Int, life: Int)
    /// A replica notices that it has no link to the store.
    case linkDown(replica: Int, link: Int)
    /// A replica has a new link to the store.
    case linkUp(replica: Int)
    /// The store is there again.
    case storeUp
    /// Something goes wrong, or somebody does something.
    case disturbance(FaultInjection)
    /// From here on nothing goes wrong any more.
    case calm
}

/// What is planned to happen to the world.
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

/// Events in the order of their times, and of their coming where the times are the same: a binary heap.
struct EventQueue {
    private struct Entry {
        var time: Int64
        var order: Int
        var event: Event
    }

    private var entries: [Entry] = []
    private var count = 0

    mutating func push(_ event: Event, at time: Int64) {
        count += 1
        let entry = Entry(time: time, order: count, event: event)
        entries.append(entry)
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard Self.isEarlier(entry, entries[parent]) else { break }
            entries[index] = entries[parent]
            index = parent
        }
        entries[index] = entry
    }

    mutating func pop() -> (time: Int64, event: Event)? {
        guard let first = entries.first, let last = entries.popLast() else { return nil }
        guard !entries.isEmpty else { return (first.time, first.event) }
        var index = 0
        while true {
            var child = 2 * index + 1
            guard child < entries.count else { break }
            if child + 1 < entries.count, Self.isEarlier(entries[child + 1], entries[child]) { child += 1 }
            guard Self.isEarlier(entries[child], last) else { break }
            entries[index] = entries[child]
            index = child
        }
        entries[index] = last
        return (first.time, first.event)
    }

    private static func isEarlier(_ left: Entry, _ right: Entry) -> Bool {
        left.time < right.time || (left.time == right.time && left.order < right.order)
    }
}
