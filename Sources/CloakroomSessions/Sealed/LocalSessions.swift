import CloakroomCore

/// One shard of a ``SessionCache``: sessions in a ring of slots. If the ring is full, the clock hand evicts the
/// first session that was not used since the hand last passed it ("second chance").
struct SessionCacheShard {
    private struct Slot {
        var session: Session?
        var wasUsed: Bool
    }

    private struct ReadState {
        let number: UInt64
        let key: SessionKey
        var pendingRead: SessionCache.PendingRead?
    }

    /// The maximum number of recorded uses of sessions that are not cached. The limit keeps invented tickets from
    /// exhausting the memory.
    private static let mostUses = 1_024

    private let capacity: Int
    private var places: [UInt64: Int] = [:]
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var hand = 0
    private var reads: [UInt64: ReadState] = [:]
    private var readCount: UInt64 = 0
    private var uses: [UInt64: Timestamp] = [:]

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { places.count }

    mutating func find(_ key: SessionKey) -> Session? {
        guard let place = places[key.word0], let session = slots[place].session, session.key == key else { return nil }
        slots[place].wasUsed = true
        return session
    }

    mutating func recordUse(of id: UInt64, at now: Timestamp) {
        guard uses[id] != nil || uses.count < Self.mostUses else { return }
        uses[id] = max(uses[id] ?? now, now)
    }

    mutating func consumeUse(of id: UInt64) -> Timestamp? {
        // Checked for every loaded session, and usually empty.
        uses.isEmpty ? nil : uses.removeValue(forKey: id)
    }

    func pendingRead(of key: SessionKey) -> SessionCache.PendingRead? {
        guard let read = reads[key.word0], read.key == key else { return nil }
        return read.pendingRead
    }

    mutating func register(_ key: SessionKey) -> UInt64 {
        readCount += 1
        reads[key.word0] = ReadState(number: readCount, key: key)
        return readCount
    }

    mutating func join(_ flight: SessionCache.PendingRead, to id: UInt64, _ number: UInt64) {
        guard reads[id]?.number == number else { return }
        reads[id]?.pendingRead = flight
    }

    mutating func finish(_ id: UInt64, _ number: UInt64, with session: Session?) {
        guard reads[id]?.number == number else { return }
        reads[id] = nil
        if let session { insert(session) }
    }

    mutating func remove(_ id: UInt64) {
        reads[id] = nil
        guard let place = places.removeValue(forKey: id) else { return }
        slots[place] = Slot(session: nil, wasUsed: false)
        free.append(place)
    }

    mutating func forgetAll() {
        reads.removeAll()
        places.removeAll()
        slots.removeAll()
        free.removeAll()
        hand = 0
    }

    private mutating func insert(_ session: Session) {
        let id = session.key.word0
        if let place = places[id] {
            // A use that is not written yet is missing in the session that was read.
            if let old = slots[place].session, old.key == session.key {
                session.touch(at: old.lastUsedAt, granularity: .zero)
            }
            slots[place] = Slot(session: session, wasUsed: true)
            return
        }
        let place = free.popLast() ?? makeRoom()
        if place == slots.count {
            slots.append(Slot(session: session, wasUsed: false))
        } else {
            slots[place] = Slot(session: session, wasUsed: false)
        }
        places[id] = place
    }

    private mutating func makeRoom() -> Int {
        guard slots.count >= capacity else { return slots.count }
        // At most two rounds: the first one clears the marks.
        while slots[hand].wasUsed {
            slots[hand].wasUsed = false
            hand = (hand + 1) % slots.count
        }
        let place = hand
        hand = (hand + 1) % slots.count
        if let session = slots[place].session { places[session.key.word0] = nil }
        return place
    }
}
