import NIOCore

/// The latest value of each key, bounded in number, size and age: at a limit the oldest values are removed.
///
/// The values of one hash slot are found without visiting the others. Some slots wait for their server: what is removed
/// from them before its time is counted. A table can also keep their values for longer, with limits of their own, so that
/// values of other slots do not displace them.
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
        /// When its age begins: the time of the write, or when its server had it if it has waited.
        fileprivate var since: ContinuousClock.Instant
        /// The number of its place.
        fileprivate var place: UInt64
        /// Whether it waits, beyond the limits for the others.
        fileprivate var isWaiting = false

        func isIn(_ slots: Set<UInt16>) -> Bool {
            slots.contains(slot) || otherSlots.contains { slots.contains($0) }
        }
    }

    private struct Place: Sendable {
        let key: Key
        let number: UInt64
    }

    /// Values in the order in which they are removed.
    private struct Queue: Sendable {
        /// With the places of values that were replaced, removed or moved since.
        var places = CircularBuffer<Place>()
        var count = 0
        var size = 0

        func exceeds(_ limits: Limits) -> Bool { count > limits.count || size > limits.size }

        /// Adds the place of a value, as the last one or the first one.
        mutating func add(_ place: Place, size: Int, isFirst: Bool = false) {
            if isFirst { places.prepend(place) } else { places.append(place) }
            count += 1
            self.size += size
        }

        /// Values that are replaced or moved again and again leave a place each.
        mutating func dropStalePlaces(_ entries: [Key: Entry]) {
            guard places.count > 2 * count + 64 else { return }
            var current = CircularBuffer<Place>(initialCapacity: count)
            for place in places where entries[place.key]?.place == place.number { current.append(place) }
            places = current
        }
    }

    private let limits: Limits
    private let keepsWaiting: Bool
    private var entries: [Key: Entry] = [:]
    private var recent = Queue()
    /// Values that only wait for their server.
    private var waiting = Queue()
    /// The keys of each hash slot that has any.
    private var keys: [UInt16: Set<Key>] = [:]
    private var nextNumber: UInt64 = 0
    private var displaced = 0

    /// - Parameter keepsWaiting: Whether values whose slot waits are kept beyond the limits: without an age limit, and as
    ///   many again as the limits allow.
    init(_ limits: Limits, keepsWaiting: Bool = false) {
        self.limits = limits
        self.keepsWaiting = keepsWaiting
    }

    var count: Int { entries.count }
    var size: Int { recent.size + waiting.size }
    /// The number of places, including stale ones.
    var placeCount: Int { recent.places.count + waiting.places.count }

    subscript(key: Key) -> Value? { entries[key]?.value }

    func entry(_ key: Key) -> Entry? { entries[key] }

    /// Sets a value, which is the newest then.
    /// - Parameter slots: The slots that wait.
    /// - Returns: The number of the write.
    @discardableResult
    mutating func set(
        _ key: Key, _ value: Value, slot: UInt16, otherSlots: [UInt16] = [], size: Int, now: ContinuousClock.Instant,
        waiting slots: Set<UInt16> = []
    ) -> UInt64 {
        remove(key)
        let number = takeNumber()
        entries[key] = Entry(
            value: value, size: size, slot: slot, otherSlots: otherSlots, writtenAt: now, number: number, since: now,
            place: number)
        keys[slot, default: []].insert(key)
        for other in otherSlots { keys[other, default: []].insert(key) }
        recent.add(Place(key: key, number: number), size: size)
        removeExcess(now: now, slots)
        dropStalePlaces()
        return number
    }

    mutating func remove(_ key: Key) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        uncount(entry)
        forget(key, in: entry.slot)
        for other in entry.otherSlots { forget(key, in: other) }
    }

    /// The server of a slot lacks nothing any more: its values do not wait.
    ///
    /// Those that would have been removed by now begin to age again, because the server has only just got them, and a
    /// failover may lose them. They are the first to be removed at a limit, and not at once: a reply that was sent before
    /// may still have to be completed with them.
    mutating func release(_ slot: UInt16, now: ContinuousClock.Instant) {
        guard keepsWaiting, let keys = keys[slot] else { return }
        for key in keys {
            guard var entry = entries[key], entry.slot == slot,
                entry.isWaiting || isTooOld(entry, now: now, isWaiting: false)
            else { continue }
            entry.since = now
            move(key, entry, isWaiting: false)
        }
        dropStalePlaces()
    }

    /// The number of values that were removed while their slots waited, and were not too old, since the last call.
    mutating func takeDisplaced() -> Int {
        defer { displaced = 0 }
        return displaced
    }

    private mutating func takeNumber() -> UInt64 {
        defer { nextNumber += 1 }
        return nextNumber
    }

    private mutating func uncount(_ entry: Entry) {
        if entry.isWaiting {
            waiting.count -= 1
            waiting.size -= entry.size
        } else {
            recent.count -= 1
            recent.size -= entry.size
        }
    }

    private mutating func forget(_ key: Key, in slot: UInt16) {
        keys[slot]?.remove(key)
        if keys[slot]?.isEmpty == true { keys[slot] = nil }
    }

    /// The entries of a hash slot that are not too old, in any order.
    /// - Parameter isWaiting: Whether the slot waits.
    func entries(in slot: Int, now: ContinuousClock.Instant, isWaiting: Bool = false) -> [Entry] {
        guard let keys = keys[UInt16(clamping: slot)] else { return [] }
        return keys.compactMap { key in
            entries[key].flatMap { isTooOld($0, now: now, isWaiting: isWaiting) ? nil : $0 }
        }
    }

    /// Whether a hash slot has an entry that is not too old.
    func hasEntries(in slot: Int, now: ContinuousClock.Instant) -> Bool {
        guard let keys = keys[UInt16(clamping: slot)] else { return false }
        return keys.contains { key in entries[key].map { !isTooOld($0, now: now, isWaiting: false) } ?? false }
    }

    private func isTooOld(_ entry: Entry, now: ContinuousClock.Instant, isWaiting: Bool) -> Bool {
        !(isWaiting && keepsWaiting) && now - entry.since >= limits.lifetime
    }

    private mutating func removeExcess(now: ContinuousClock.Instant, _ slots: Set<UInt16>) {
        while let first = recent.places.first {
            guard let entry = entries[first.key], entry.place == first.number else {
                recent.places.removeFirst()
                continue
            }
            let isTooOld = isTooOld(entry, now: now, isWaiting: false)
            guard isTooOld || recent.exceeds(limits) else { break }
            recent.places.removeFirst()
            if keepsWaiting, slots.contains(entry.slot) {
                move(first.key, entry, isWaiting: true)
            } else {
                remove(first.key)
                if !isTooOld, entry.isIn(slots) { displaced += 1 }
            }
        }
        while waiting.exceeds(limits), let first = waiting.places.popFirst() {
            guard entries[first.key]?.place == first.number else { continue }
            remove(first.key)
            displaced += 1
        }
    }

    /// Gives a value the last place of those that wait, or the first one of the others.
    private mutating func move(_ key: Key, _ entry: Entry, isWaiting: Bool) {
        uncount(entry)
        var entry = entry
        entry.isWaiting = isWaiting
        entry.place = takeNumber()
        entries[key] = entry
        let place = Place(key: key, number: entry.place)
        if isWaiting {
            waiting.add(place, size: entry.size)
        } else {
            recent.add(place, size: entry.size, isFirst: true)
        }
    }

    private mutating func dropStalePlaces() {
        recent.dropStalePlaces(entries)
        waiting.dropStalePlaces(entries)
    }
}
