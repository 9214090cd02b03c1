import CloakroomCore
import Synchronization

/// Uses of sessions that are not written yet: the latest one per session. Bounded; a use beyond the limit is dropped,
/// and the next one, an eighth of the idle timeout later, is recorded again.
final class PendingTouches: Sendable {
    private let capacity: Int
    private let touches = Mutex<[UInt64: RecordTouch]>([:])

    init(capacity: Int) {
        self.capacity = max(1, capacity)
    }

    var isEmpty: Bool { touches.withLock(\.isEmpty) }

    func note(_ touch: RecordTouch) {
        touches.withLock { touches in
            if let known = touches[touch.id.value] {
                if known.lastUsedAt < touch.lastUsedAt { touches[touch.id.value] = touch }
            } else if touches.count < capacity {
                touches[touch.id.value] = touch
            }
        }
    }

    /// The time of the last use of a session, if it is not written yet.
    func lastUse(of id: SessionID) -> Timestamp? {
        touches.withLock { $0[id.value]?.lastUsedAt }
    }

    /// The uses. They stay here until ``written(_:)``, so that nothing is lost if the store is unavailable.
    var all: [RecordTouch] { touches.withLock { Array($0.values) } }

    /// Removes written uses, unless there was a later one since.
    func written(_ batch: some Sequence<RecordTouch>) {
        touches.withLock { touches in
            for touch in batch where touches[touch.id.value] == touch { touches[touch.id.value] = nil }
        }
    }
}

/// The grace period after an outage of the store, in which replicas save the data that they could not save during it.
final class PostOutageGracePeriod: Sendable {
    /// The time that a replica may need to reconnect (5 s at most between two attempts) and to retry (1.6 s between two
    /// attempts to save new tokens).
    static let length = Duration.seconds(7)

    private let count: Int
    /// The end of the period of each partition; empty before the first outage.
    private let ends = Mutex<[ContinuousClock.Instant?]>([])

    /// - Parameter count: The number of partitions of the store.
    init(partitions count: Int = 1) {
        self.count = max(1, count)
    }

    /// Partitions of the store are available again.
    func begin(_ partitions: [Range<Int>], now: ContinuousClock.Instant = .now) {
        ends.withLock { ends in
            if ends.isEmpty { ends = Array(repeating: nil, count: count) }
            for partition in partitions.lazy.map({ $0.clamped(to: 0..<self.count) }).joined() {
                ends[partition] = now + Self.length
            }
        }
    }

    /// Whether a partition is in no grace period.
    func isOver(_ partition: Int, now: ContinuousClock.Instant = .now) -> Bool {
        ends.withLock { ends in
            guard ends.indices.contains(partition), let end = ends[partition] else { return true }
            return now >= end
        }
    }
}
