import CloakroomCore
import Synchronization

/// A bounded cache of opened sessions for event loops. The store holds the authoritative data.
///
/// The cache is trusted only while the store reports changes. A change that arrives while a session is being read must
/// not be lost: a reader registers first, a change deletes the registration, and only a reader that is still registered
/// may insert its result.
final class SessionCache: Sendable {
    /// A read in progress, which other requests for the same session join.
    typealias PendingRead = Task<Result<SessionLookup, SessionStoreError>, Never>

    struct ReadRegistration: Sendable {
        fileprivate let id: UInt64
        fileprivate let number: UInt64
    }

    private final class Shard: Sendable {
        let contents: Mutex<SessionCacheShard>

        init(capacity: Int) {
            contents = Mutex(SessionCacheShard(capacity: capacity))
        }
    }

    private static let mostShards = 64
    private let shards: [Shard]
    private let mask: UInt64
    private let trust = Atomic<Bool>(false)
    private let changes = Atomic<UInt64>(0)

    /// - Parameter capacity: The maximum number of sessions.
    init(capacity: Int) {
        var count = 1
        while count < Self.mostShards, count * 2 <= capacity { count *= 2 }
        shards = (0..<count).map { _ in Shard(capacity: max(1, capacity / count)) }
        mask = UInt64(count - 1)
    }

    /// Whether cached sessions may be used.
    var isCoherent: Bool { trust.load(ordering: .acquiring) }

    var count: Int { shards.reduce(0) { $0 + $1.contents.withLock(\.count) } }

    /// The number of calls of ``recordChanged(_:)``. Changes of unknown records do not count: after an outage, all
    /// long-lived responses would read their sessions at the same time.
    var changeCount: UInt64 { changes.load(ordering: .acquiring) }

    /// A cached session, if the cache is trusted. One short lock, no allocation.
    func session(_ key: SessionKey) -> Session? {
        guard isCoherent else { return nil }
        return cachedSession(key)
    }

    /// A cached session, trusted or not: for the time of its last use.
    func cachedSession(_ key: SessionKey) -> Session? {
        shard(of: key.word0).contents.withLock { $0.find(key) }
    }

    /// Records a use of a session that was not cached.
    func recordUse(of id: SessionID, at now: Timestamp) {
        shard(of: id.value).contents.withLock { $0.recordUse(of: id.value, at: now) }
    }

    /// Returns the recorded use and removes it.
    func consumeUse(of id: SessionID) -> Timestamp? {
        shard(of: id.value).contents.withLock { $0.consumeUse(of: id.value) }
    }

    /// The pending read of the session, or a new one. A read that a change has invalidated is not joined.
    func pendingRead(of key: SessionKey, _ start: (ReadRegistration) -> PendingRead) -> PendingRead {
        shard(of: key.word0).contents.withLock { contents in
            if let flight = contents.pendingRead(of: key) { return flight }
            let number = contents.register(key)
            let flight = start(ReadRegistration(id: key.word0, number: number))
            contents.join(flight, to: key.word0, number)
            return flight
        }
    }

    /// Registers a read that no other request joins. Replaces a pending one.
    func begin(_ key: SessionKey) -> ReadRegistration {
        let number = shard(of: key.word0).contents.withLock { $0.register(key) }
        return ReadRegistration(id: key.word0, number: number)
    }

    /// Completes a read.
    /// - Parameter session: The result, which is cached if no change arrived in between.
    func finish(_ ticket: ReadRegistration, with session: Session?) {
        let kept = isCoherent ? session : nil
        shard(of: ticket.id).contents.withLock { $0.finish(ticket.id, ticket.number, with: kept) }
    }

    func recordChanged(_ id: SessionID) {
        shard(of: id.value).contents.withLock { $0.remove(id.value) }
        changes.wrappingAdd(1, ordering: .releasing)
    }

    func allRecordsChanged() {
        for shard in shards { shard.contents.withLock { $0.forgetAll() } }
    }

    /// Sets whether the store reports changes.
    func connectionChanged(isUp: Bool) {
        // Emptied on both transitions while the cache is not trusted: data read before may have missed changes.
        trust.store(false, ordering: .releasing)
        allRecordsChanged()
        if isUp { trust.store(true, ordering: .releasing) }
    }

    private func shard(of id: UInt64) -> Shard { shards[Int(truncatingIfNeeded: id & mask)] }
}

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
