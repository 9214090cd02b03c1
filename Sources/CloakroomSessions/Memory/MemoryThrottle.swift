import CloakroomCore
import Synchronization

/// The state of the sign-in throttle, in this process; bounded. Address states expire within minutes, so a flood of
/// addresses does not evict the states of accounts.
final class MemoryThrottle: Sendable {
    private let states: Mutex<BoundedExpiringTable<ThrottleKey, ThrottleState>>

    init(capacity: Int = 100_000) {
        states = Mutex(BoundedExpiringTable(capacity: capacity))
    }

    var count: Int { states.withLock { $0.count } }

    func states(_ keys: [ThrottleKey], now: Timestamp) -> [ThrottleState?] {
        states.withLock { states in keys.map { states.value(of: $0, now: now) } }
    }

    func replace(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) -> Bool {
        states.withLock { states in
            guard states.value(of: key, now: now) == old else { return false }
            if let new { states.set(key, new, lifetime: lifetime, now: now) } else { states.remove(key) }
            return true
        }
    }

    func sweep(now: Timestamp) {
        states.withLock { $0.sweep(now: now) }
    }
}
