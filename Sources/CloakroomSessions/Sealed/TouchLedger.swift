import CloakroomCore
import Synchronization

/// Uses of sessions that are not written yet: the latest one per session. Bounded; a use beyond the limit is dropped,
/// and the next one, a minute later, is recorded again.
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

    /// Some of the uses. They stay here until ``written(_:)``, so that nothing is lost if the store is unavailable.
    func batch(limit: Int) -> [RecordTouch] {
        touches.withLock { Array($0.values.prefix(limit)) }
    }

    /// Removes written uses, unless there was a later one since.
    func written(_ batch: [RecordTouch]) {
        touches.withLock { touches in
            for touch in batch where touches[touch.id.value] == touch { touches[touch.id.value] = nil }
        }
    }
}
