import NIOCore

/// The latest value of each key, bounded in number, size and age: at a limit the oldest values are removed.
///
/// The values of one hash slot are found without visiting the others.
struct JournalTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    struct Limits: Sendable {
        /// The maximum number of values.
        var count: Int
        /// The maximum size of all values in bytes.
        var size: Int
        /// How long a value is kept.
        var lifetime: Duration
    }

    struct Entry: Sendable {
        let value: Value
        /// The size of the value in bytes.
        let size: Int
        /// The hash slot of the value, and further ones in which it is also found.
        let slot: UInt16
        let otherSlots: [UInt16]
        let writtenAt: ContinuousClock.Instant
        /// The number of the write.
        let number: UInt64
    }

    private struct Place: Sendable {
        let key: Key
        let number: UInt64
    }

    private let limits: Limits
    private var entries: [Key: Entry] = [:]
    /// The keys in the order of their writes, with the places of values that were replaced or removed since.
    private var order = CircularBuffer<Place>()
    /// The keys of each hash slot that has any.
    private var keys: [UInt16: Set<Key>] = [:]
    private var nextNumber: UInt64 = 0
    private(set) var size = 0
    /// Whether values stay that are older than the limit.
    var keepsOld = false

    init(_ limits: Limits) {
        self.limits = limits
    }

    var count: Int { entries.count }
    /// The number of places, including stale ones.
    var placeCount: Int { order.count }

    subscript(key: Key) -> Value? { entries[key]?.value }

    func entry(_ key: Key) -> Entry? { entries[key] }

    /// Sets a value, which is the newest then.
    /// - Returns: The number of the write.
    @discardableResult
    mutating func set(
        _ key: Key, _ value: Value, slot: UInt16, otherSlots: [UInt16] = [], size: Int, now: ContinuousClock.Instant
    ) -> UInt64 {
        remove(key)
        let number = nextNumber
        entries[key] = Entry(
            value: value, size: size, slot: slot, otherSlots: otherSlots, writtenAt: now, number: nextNumber)
        keys[slot, default: []].insert(key)
        for other in otherSlots { keys[other, default: []].insert(key) }
        order.append(Place(key: key, number: nextNumber))
        nextNumber += 1
        self.size += size
        removeExcess(now: now)
        // Values that are replaced again and again leave a place each.
        if order.count > 2 * entries.count + 64 { dropStalePlaces() }
        return number
    }

    mutating func remove(_ key: Key) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        size -= entry.size
        forget(key, in: entry.slot)
        for other in entry.otherSlots { forget(key, in: other) }
    }

    private mutating func forget(_ key: Key, in slot: UInt16) {
        keys[slot]?.remove(key)
        if keys[slot]?.isEmpty == true { keys[slot] = nil }
    }

    /// The entries of a hash slot that are not too old, in any order.
    func entries(in slot: Int, now: ContinuousClock.Instant) -> [Entry] {
        guard let keys = keys[UInt16(clamping: slot)] else { return [] }
        return keys.compactMap { key in
            entries[key].flatMap { isTooOld($0, now: now) ? nil : $0 }
        }
    }

    private mutating func removeExcess(now: ContinuousClock.Instant) {
        while let first = order.first {
            guard let entry = entries[first.key], entry.number == first.number else {
                order.removeFirst()
                continue
            }
            guard
                entries.count > limits.count || size > limits.size || isTooOld(entry, now: now)
            else { return }
            order.removeFirst()
            remove(first.key)
        }
    }

    private func isTooOld(_ entry: Entry, now: ContinuousClock.Instant) -> Bool {
        !keepsOld && now - entry.writtenAt >= limits.lifetime
    }

    private mutating func dropStalePlaces() {
        var current = CircularBuffer<Place>(initialCapacity: entries.count)
        for place in order where entries[place.key]?.number == place.number { current.append(place) }
        order = current
    }
}
