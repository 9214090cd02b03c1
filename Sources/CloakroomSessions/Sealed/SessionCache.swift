import CloakroomCore
import Synchronization

/// A bounded cache of opened sessions for event loops. The store holds the authoritative data.
///
/// A session is trusted only while the store reports the changes of all partitions that it was read from; see
/// ``SessionTrust``. A change that arrives while a session is being read must not be lost: a reader registers first, a
/// change deletes the registration, and only a reader that is still registered may insert its result.
final class SessionCache: Sendable {
    /// A read in progress, which other requests for the same session join.
    typealias PendingRead = Task<Result<SessionLookup, SessionStoreError>, Never>

    struct ReadRegistration: Sendable {
        fileprivate let id: UInt64
        fileprivate let number: UInt64
        /// The session's partition, and its word at the registration.
        let partition: Int
        let word: UInt32
    }

    /// A session to cache, with the stamp of what it was read from.
    struct Entry: Sendable {
        let session: Session
        let stamp: TrustStamp
    }

    private final class Shard: Sendable {
        let contents: Mutex<SessionCacheShard>

        init(capacity: Int) {
            contents = Mutex(SessionCacheShard(capacity: capacity))
        }
    }

    private static let maxShards = 64
    private let shards: [Shard]
    private let mask: UInt64
    let trust: SessionTrust
    private let changes = Atomic<UInt64>(0)
    /// The number of changes of cutoffs: an earlier read is not joined, because it may have the cutoff from before.
    private let cutoffChanges = Atomic<UInt64>(0)

    /// - Parameters:
    ///   - capacity: The maximum number of sessions.
    ///   - partitions: The number of partitions of the store.
    init(capacity: Int, partitions: Int = 1) {
        trust = SessionTrust(partitions: partitions)
        var count = 1
        while count < Self.maxShards, count * 2 <= capacity { count *= 2 }
        shards = (0..<count).map { _ in Shard(capacity: max(1, capacity / count)) }
        mask = UInt64(count - 1)
    }

    /// Whether any partition of the store is available.
    var isAvailable: Bool { trust.isAvailable }

    /// The number of sessions, including those that are not trusted any more and not replaced yet.
    var count: Int { shards.reduce(0) { $0 + $1.contents.withLock(\.count) } }

    /// The number of changes of single records and of cutoffs. Changes of unknown records do not count: after an outage,
    /// all long-lived responses would read their sessions at the same time.
    var changeCount: UInt64 { changes.load(ordering: .acquiring) }

    /// A cached session, if it is trusted. One short lock, no allocation.
    func session(_ key: SessionKey) -> Session? {
        shard(of: key.word0).contents.withLock { $0.find(key, trust) }
    }

    /// A cached session, trusted or not: for the time of its last use.
    func cachedSession(_ key: SessionKey) -> Session? {
        shard(of: key.word0).contents.withLock { $0.findUntrusted(key) }
    }

    /// Lets a session that was read, and that no request uses yet, count requests together with its other objects.
    func shareRequests(of session: Session) {
        shard(of: session.key.word0).contents.withLock { $0.shareRequests(of: session) }
    }

    /// Records a use of a session that was not cached.
    func recordUse(of id: SessionID, at now: SessionTime) {
        shard(of: id.value).contents.withLock { $0.recordUse(of: id.value, at: now) }
    }

    /// Returns the recorded use and removes it.
    func consumeUse(of id: SessionID) -> SessionTime? {
        shard(of: id.value).contents.withLock { $0.consumeUse(of: id.value) }
    }

    /// The pending read of the session, or a new one. A read that a change has invalidated is not joined.
    func pendingRead(
        of key: SessionKey, in partition: Int, _ start: (ReadRegistration) -> PendingRead
    ) -> PendingRead {
        let epoch = epoch(of: partition)
        return shard(of: key.word0).contents.withLock { contents in
            if let pending = contents.pendingRead(of: key, epoch) { return pending }
            let number = contents.register(key, epoch)
            let started = start(
                ReadRegistration(id: key.word0, number: number, partition: partition, word: epoch.word))
            contents.set(started, of: key.word0, number)
            return started
        }
    }

    /// Registers a read that no other request joins. Replaces a pending one.
    func begin(_ key: SessionKey, in partition: Int) -> ReadRegistration {
        let epoch = epoch(of: partition)
        let number = shard(of: key.word0).contents.withLock { $0.register(key, epoch) }
        return ReadRegistration(id: key.word0, number: number, partition: partition, word: epoch.word)
    }

    /// Completes a read.
    /// - Parameter entry: The result, which is cached if no change arrived in between.
    /// - Returns: The recorded use, which is removed. In the same step, because no request joins the read from then on:
    ///   the use of one that joined it later would stay, and uses are limited in number. `nil` while a later read is
    ///   pending: the use may be that of a request which has joined that one.
    @discardableResult
    func finish(_ read: ReadRegistration, with entry: Entry?) -> SessionTime? {
        let kept = entry.flatMap { trust.isCurrent($0.stamp) ? $0 : nil }
        return shard(of: read.id).contents.withLock { contents in
            contents.finish(read.id, read.number, with: kept)
            return contents.hasRead(of: read.id) ? nil : contents.consumeUse(of: read.id)
        }
    }

    private func epoch(of partition: Int) -> ReadEpoch {
        ReadEpoch(word: trust.word(partition), cutoffChanges: cutoffChanges.load(ordering: .acquiring))
    }

    func recordChanged(_ id: SessionID) {
        shard(of: id.value).contents.withLock { $0.remove(id.value) }
        changes.wrappingAdd(1, ordering: .releasing)
    }

    /// The cutoff of an index in a partition has changed. Everything that was read from the partition is forgotten:
    /// 1 of 16,384 parts of the sessions, so that no session has to hold a reference to its cutoffs.
    func cutoffChanged(in partition: Int) {
        trust.forget(partition)
        cutoffChanges.wrappingAdd(1, ordering: .releasing)
        changes.wrappingAdd(1, ordering: .releasing)
    }

    func allRecordsChanged() { trust.forgetAll() }

    /// Sets whether the store reports the changes of partitions.
    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool) {
        trust.partitionsChanged(partitions, areTrusted: areTrusted)
    }

    private func shard(of id: UInt64) -> Shard { shards[Int(truncatingIfNeeded: id & mask)] }
}

/// What a pending read may depend on: it is joined only while this is the same.
struct ReadEpoch: Equatable {
    var word: UInt32
    var cutoffChanges: UInt64
}

/// One shard of a ``SessionCache``: sessions in a ring of slots. If the ring is full, the clock hand evicts the
/// first session that was not used since the hand last passed it ("second chance").
struct SessionCacheShard {
    private struct Slot {
        var session: Session?
        var stamp = TrustStamp(record: 0, sum: 0)
        var wasUsed: Bool
    }

    private struct ReadState {
        let number: UInt64
        let key: SessionKey
        let epoch: ReadEpoch
        var pendingRead: SessionCache.PendingRead?
    }

    /// The maximum number of recorded uses of sessions that are not cached. The limit keeps invented tickets from
    /// exhausting the memory.
    private static let maxUses = 1_024

    private let capacity: Int
    private var places: [UInt64: Int] = [:]
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var hand = 0
    private var reads: [UInt64: ReadState] = [:]
    private var readCount: UInt64 = 0
    private var uses: [UInt64: SessionTime] = [:]
    /// The requests of sessions that are not cached, as long as an object of the session exists.
    let counts = RequestCounts()

    init(capacity: Int) {
        self.capacity = capacity
    }

    var count: Int { places.count }

    mutating func find(_ key: SessionKey, _ trust: SessionTrust) -> Session? {
        guard let place = places[key.word0], let session = slots[place].session, session.key == key,
            trust.isCurrent(slots[place].stamp)
        else { return nil }
        slots[place].wasUsed = true
        return session
    }

    /// A session, trusted or not.
    func findUntrusted(_ key: SessionKey) -> Session? {
        guard let place = places[key.word0], let session = slots[place].session, session.key == key else { return nil }
        return session
    }

    func shareRequests(of session: Session) {
        if let place = places[session.key.word0], let cached = slots[place].session {
            session.share(cached.requests)
        } else {
            counts.share(session)
        }
    }

    mutating func recordUse(of id: UInt64, at now: SessionTime) {
        guard uses[id] != nil || uses.count < Self.maxUses else { return }
        uses[id] = max(uses[id] ?? now, now)
    }

    mutating func consumeUse(of id: UInt64) -> SessionTime? {
        // Checked for every loaded session, and usually empty.
        uses.isEmpty ? nil : uses.removeValue(forKey: id)
    }

    func pendingRead(of key: SessionKey, _ epoch: ReadEpoch) -> SessionCache.PendingRead? {
        guard let read = reads[key.word0], read.key == key, read.epoch == epoch else { return nil }
        return read.pendingRead
    }

    func hasRead(of id: UInt64) -> Bool { reads[id] != nil }

    mutating func register(_ key: SessionKey, _ epoch: ReadEpoch) -> UInt64 {
        readCount += 1
        reads[key.word0] = ReadState(number: readCount, key: key, epoch: epoch)
        return readCount
    }

    /// Sets the task of a registered read, which other requests may join.
    mutating func set(_ pendingRead: SessionCache.PendingRead, of id: UInt64, _ number: UInt64) {
        guard reads[id]?.number == number else { return }
        reads[id]?.pendingRead = pendingRead
    }

    mutating func finish(_ id: UInt64, _ number: UInt64, with entry: SessionCache.Entry?) {
        guard reads[id]?.number == number else { return }
        reads[id] = nil
        if let entry { insert(entry) }
    }

    mutating func remove(_ id: UInt64) {
        reads[id] = nil
        guard let place = places.removeValue(forKey: id) else { return }
        if let session = slots[place].session { counts.share(session) }
        slots[place] = Slot(session: nil, wasUsed: false)
        free.append(place)
    }

    private mutating func insert(_ entry: SessionCache.Entry) {
        let session = entry.session
        let id = session.key.word0
        counts.remove(session.key)
        if let place = places[id] {
            // A use that is not written yet is missing in the session that was read.
            if let old = slots[place].session, old.key == session.key {
                session.touch(at: old.lastUsedAt, granularity: .zero)
            }
            slots[place] = Slot(session: session, stamp: entry.stamp, wasUsed: true)
            return
        }
        let place = free.popLast() ?? makeRoom()
        if place == slots.count {
            slots.append(Slot(session: session, stamp: entry.stamp, wasUsed: false))
        } else {
            slots[place] = Slot(session: session, stamp: entry.stamp, wasUsed: false)
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
        if let session = slots[place].session {
            places[session.key.word0] = nil
            counts.share(session)
        }
        return place
    }
}
