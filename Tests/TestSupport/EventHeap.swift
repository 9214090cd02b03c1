/// The agenda of a simulation: numbers of events in the order of their times; events at the same time keep their
/// insertion order. A binary heap without generic parameters, because debug builds do not specialize.
package struct EventHeap {
    private struct Entry {
        var time: UInt64
        var order: Int
        var event: Int
    }

    private var entries: [Entry] = []
    private var count = 0

    package init() {}

    /// Adds an event.
    package mutating func push(_ event: Int, at time: UInt64) {
        count += 1
        let entry = Entry(time: time, order: count, event: event)
        entries.append(entry)
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            let other = entries[parent]
            // The entry was added last, so it is later than another one at the same time.
            guard time < other.time else { break }
            entries[index] = other
            index = parent
        }
        entries[index] = entry
    }

    /// Removes the earliest event.
    package mutating func pop() -> (time: UInt64, event: Int)? {
        guard let last = entries.popLast() else { return nil }
        let count = entries.count
        guard count > 0 else { return (last.time, last.event) }
        let first = entries[0]
        var index = 0
        while true {
            var child = 2 * index + 1
            guard child < count else { break }
            var earliest = entries[child]
            if child + 1 < count {
                let other = entries[child + 1]
                if Self.isEarlier(other, earliest) {
                    child += 1
                    earliest = other
                }
            }
            guard Self.isEarlier(earliest, last) else { break }
            entries[index] = earliest
            index = child
        }
        entries[index] = last
        return (first.time, first.event)
    }

    private static func isEarlier(_ left: Entry, _ right: Entry) -> Bool {
        left.time < right.time || (left.time == right.time && left.order < right.order)
    }
}
