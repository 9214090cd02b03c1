/// A binary min-heap of deadlines.
///
/// An entry is only a time to check: the session may have been used since, or removed.
struct ExpiryHeap<ID> {
    struct Entry {
        /// Milliseconds since the epoch.
        var deadline: Int64
        /// The id of the session to check.
        var id: ID
    }

    private var entries: [Entry] = []

    init() {}

    /// Creates a heap of the entries in linear time.
    init(_ entries: [Entry]) {
        self.entries = entries
        for index in (0..<entries.count / 2).reversed() { sink(from: index) }
    }

    var count: Int { entries.count }

    mutating func push(_ entry: Entry) {
        entries.append(entry)
        var index = entries.count - 1
        while index > 0 {
            let parent = (index - 1) / 2
            guard entries[index].deadline < entries[parent].deadline else { return }
            entries.swapAt(index, parent)
            index = parent
        }
    }

    /// Removes the earliest entry if its deadline is not after `now`.
    mutating func popDue(now: Int64) -> Entry? {
        guard let first = entries.first, first.deadline <= now else { return nil }
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        sink(from: 0)
        return first
    }

    private mutating func sink(from start: Int) {
        var index = start
        while true {
            var least = index
            let left = 2 * index + 1
            for child in left..<left + 2 where child < entries.count {
                if entries[child].deadline < entries[least].deadline { least = child }
            }
            guard least != index else { return }
            entries.swapAt(index, least)
            index = least
        }
    }
}
