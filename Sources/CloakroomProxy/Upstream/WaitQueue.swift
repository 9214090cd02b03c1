/// The waiters of an ``UpstreamPoolStateMachine``: first in, first out, each with its own deadline.
///
/// A linked list within an array: a waiter is appended, removed from the front or cancelled anywhere in constant time,
/// without an allocation once the array is large enough.
struct WaitQueue<Waiter> {
    /// A waiter that has left the queue.
    struct Removed {
        let waiter: Waiter
        /// The slot of the target that was selected for it; -1 for none.
        let slot: Int
        /// Whether it counted against the length of the queue.
        let hasPlace: Bool
    }

    private struct Entry {
        var waiter: Waiter?
        var generation: UInt32 = 0
        var previous = -1
        /// The next waiter, or the next free entry; -1 for none.
        var next = -1
        var since: UInt64 = 0
        var deadline = UInt64.max
        var slot = -1
        var hasPlace = false
    }

    private var entries = ContiguousArray<Entry>()
    private var free = -1
    private var head = -1
    private var tail = -1
    private(set) var count = 0
    /// A time before which no waiter's own deadline passes.
    private(set) var earliestDeadline = UInt64.max
    /// The next waiter of the search for passed deadlines; -1 if no search is in progress.
    private var cursor = -1
    /// The earliest deadline that the search has seen.
    private var seenDeadline = UInt64.max

    var isEmpty: Bool { count == 0 }

    /// The waiter that has waited longest.
    var first: Waiter? { head >= 0 ? entries[head].waiter : nil }

    /// The time at which the longest waiting one was appended; `nil` if there is none.
    var oldest: UInt64? { head >= 0 ? entries[head].since : nil }

    mutating func append(
        _ waiter: Waiter, slot: Int, hasPlace: Bool, now: UInt64, deadline: UInt64
    ) -> WaiterID {
        let index = free >= 0 ? free : entries.count
        if free >= 0 { free = entries[index].next } else { entries.append(Entry()) }
        entries[index] = Entry(
            waiter: waiter, generation: entries[index].generation, previous: tail, since: now, deadline: deadline,
            slot: slot, hasPlace: hasPlace)
        if tail >= 0 { entries[tail].next = index } else { head = index }
        tail = index
        count += 1
        if deadline < earliestDeadline { earliestDeadline = deadline }
        return WaiterID(index: UInt32(truncatingIfNeeded: index), generation: entries[index].generation)
    }

    /// Removes the waiter that has waited longest.
    mutating func popFirst() -> Removed? {
        head >= 0 ? remove(head) : nil
    }

    /// Removes a waiter.
    /// - Returns: `nil` if it has left the queue already.
    mutating func remove(_ id: WaiterID) -> Removed? {
        let index = Int(id.index)
        guard index < entries.count, entries[index].generation == id.generation else { return nil }
        return remove(index)
    }

    /// Removes a waiter whose own deadline has passed. All calls until the result is `nil` together visit each waiter
    /// twice at most, and none if no deadline can have passed.
    mutating func removeExpired(now: UInt64) -> Removed? {
        if cursor < 0 {
            guard earliestDeadline <= now else { return nil }
            cursor = head
            seenDeadline = .max
        }
        while cursor >= 0 {
            let index = cursor
            // Removal advances the cursor.
            if entries[index].deadline <= now { return remove(index) }
            seenDeadline = min(seenDeadline, entries[index].deadline)
            cursor = entries[index].next
        }
        earliestDeadline = seenDeadline
        return nil
    }

    /// The number of waiters that were appended before this time.
    func count(before time: UInt64) -> Int {
        var count = 0
        var index = head
        while index >= 0, entries[index].since < time {
            count += 1
            index = entries[index].next
        }
        return count
    }

    private mutating func remove(_ index: Int) -> Removed? {
        let entry = entries[index]
        guard let waiter = entry.waiter else { return nil }
        if entry.previous >= 0 { entries[entry.previous].next = entry.next } else { head = entry.next }
        if entry.next >= 0 { entries[entry.next].previous = entry.previous } else { tail = entry.previous }
        if cursor == index { cursor = entry.next }
        entries[index] = Entry(waiter: nil, generation: entry.generation &+ 1, next: free)
        free = index
        count -= 1
        if count == 0 { earliestDeadline = .max }
        return Removed(waiter: waiter, slot: entry.slot, hasPlace: entry.hasPlace)
    }
}
