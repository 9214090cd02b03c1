import CloakroomCore
import Synchronization

/// Sessions that were opened, at hand for event loops: bounded, and no more than a copy of what the store holds.
///
/// A copy is trusted only while the store tells of changes. A change that is told while a session is being read must not
/// be lost: whoever reads registers before, a change strikes the registration out, and only who is still registered may
/// put in what was read.
final class SessionCache: Sendable {
    /// A read that is under way, for others who want the same session.
    typealias PendingRead = Task<Result<SessionLookup, SessionStoreError>, Never>

    /// The registration of a read.
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

    /// - Parameter capacity: The most sessions that are kept.
    init(capacity: Int) {
        var count = 1
        while count < Self.mostShards, count * 2 <= capacity { count *= 2 }
        shards = (0..<count).map { _ in Shard(capacity: max(1, capacity / count)) }
        mask = UInt64(count - 1)
    }

    /// Whether what is here may be used.
    var isCoherent: Bool { trust.load(ordering: .acquiring) }

    var count: Int { shards.reduce(0) { $0 + $1.contents.withLock(\.count) } }

    /// A session that may be used. One short lock, no allocation.
    func session(_ key: SessionKey) -> Session? {
        guard isCoherent else { return nil }
        return cachedSession(key)
    }

    /// A session whether or not it may be used: for the time of its last use.
    func cachedSession(_ key: SessionKey) -> Session? {
        shard(of: key.word0).contents.withLock { $0.find(key) }
    }

    /// Notes that a session was wanted for a use when it was not at hand.
    func recordUse(of id: SessionID, at now: Timestamp) {
        shard(of: id.value).contents.withLock { $0.recordUse(of: id.value, at: now) }
    }

    /// That use, once.
    func consumeUse(of id: SessionID) -> Timestamp? {
        shard(of: id.value).contents.withLock { $0.consumeUse(of: id.value) }
    }

    /// The read of a session that is under way, or a new one. A read that a change has overtaken is not joined.
    func pendingRead(of key: SessionKey, _ start: (ReadRegistration) -> PendingRead) -> PendingRead {
        shard(of: key.word0).contents.withLock { contents in
            if let flight = contents.pendingRead(of: key) { return flight }
            let number = contents.register(key)
            let flight = start(ReadRegistration(id: key.word0, number: number))
            contents.join(flight, to: key.word0, number)
            return flight
        }
    }

    /// Registers a read that nobody joins. Takes the place of one that is under way.
    func begin(_ key: SessionKey) -> ReadRegistration {
        let number = shard(of: key.word0).contents.withLock { $0.register(key) }
        return ReadRegistration(id: key.word0, number: number)
    }

    /// A read is over.
    /// - Parameter session: What it found, to be kept if no change came between.
    func finish(_ ticket: ReadRegistration, with session: Session?) {
        let kept = isCoherent ? session : nil
        shard(of: ticket.id).contents.withLock { $0.finish(ticket.id, ticket.number, with: kept) }
    }

    /// What is known of a session is stale.
    func recordChanged(_ id: SessionID) {
        shard(of: id.value).contents.withLock { $0.remove(id.value) }
    }

    /// Everything is stale.
    func allRecordsChanged() {
        for shard in shards { shard.contents.withLock { $0.forgetAll() } }
    }

    /// The store tells of changes from here on, or does not.
    func connectionChanged(isUp: Bool) {
        // Emptied while nobody trusts it, on both ways: what was read before knows nothing of what was missed.
        trust.store(false, ordering: .releasing)
        allRecordsChanged()
        if isUp { trust.store(true, ordering: .releasing) }
    }

    private func shard(of id: UInt64) -> Shard { shards[Int(truncatingIfNeeded: id & mask)] }
}
