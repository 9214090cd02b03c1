import CloakroomCore

/// Values that expire; bounded. At the limit the value that expires first is evicted.
struct BoundedExpiringTable<Key: Hashable, Value> {
    private struct Entry {
        var value: Value
        var forgetAt: SessionTime
    }

    private let capacity: Int
    private var entries: [Key: Entry] = [:]
    private var deadlines = ExpiryHeap<Key>()

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var count: Int { entries.count }

    func value(of key: Key, now: SessionTime) -> Value? {
        guard let entry = entries[key], now < entry.forgetAt else { return nil }
        return entry.value
    }

    mutating func set(_ key: Key, _ value: Value, lifetime: Duration, now: SessionTime) {
        if entries[key] == nil { makeRoom(now: now) }
        let forgetAt = now + lifetime
        entries[key] = Entry(value: value, forgetAt: forgetAt)
        deadlines.push(ExpiryHeap.Entry(deadline: forgetAt.milliseconds, id: key))
        // Each change leaves a stale entry; the heap is rebuilt if most entries are stale.
        if deadlines.count > 2 * entries.count + 64 {
            deadlines = ExpiryHeap(
                entries.map { ExpiryHeap.Entry(deadline: $0.value.forgetAt.milliseconds, id: $0.key) })
        }
    }

    mutating func remove(_ key: Key) { entries[key] = nil }

    mutating func sweep(now: SessionTime) {
        while dropNext(now: now.milliseconds) {}
    }

    private mutating func makeRoom(now: SessionTime) {
        guard entries.count >= capacity else { return }
        sweep(now: now)
        while entries.count >= capacity, dropNext(now: .max) {}
    }

    private mutating func dropNext(now: Int64) -> Bool {
        guard let next = deadlines.popDue(now: now) else { return false }
        if entries[next.id]?.forgetAt.milliseconds == next.deadline { entries[next.id] = nil }
        return true
    }
}
