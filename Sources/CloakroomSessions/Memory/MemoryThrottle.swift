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

    func states(_ keys: [ThrottleKey], now: SessionTime) -> [ThrottleState?] {
        states.withLock { states in keys.map { states.value(of: $0, now: now) } }
    }

    func count(_ counters: [ThrottleCounter], now: SessionTime) -> ThrottleResult {
        states.withLock { states in
            let result = ThrottleResult(counters, counters.map { states.value(of: $0.key, now: now) }, now: now)
            if case .counted(let counts) = result {
                for count in counts { states.set(count.counter.key, count.after, lifetime: count.lifetime, now: now) }
            }
            return result
        }
    }

    func remove(_ counts: [ThrottleCount], now: SessionTime) {
        states.withLock { states in
            for count in counts {
                let key = count.counter.key
                if let new = count.removed(from: states.value(of: key, now: now), now: now) {
                    states.set(key, new.state, lifetime: new.lifetime, now: now)
                } else {
                    states.remove(key)
                }
            }
        }
    }

    func sweep(now: SessionTime) {
        states.withLock { $0.sweep(now: now) }
    }
}
