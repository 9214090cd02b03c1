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
