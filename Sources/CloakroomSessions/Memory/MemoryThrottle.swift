import CloakroomCore
import Synchronization

/// The state of the sign-in throttle, in this process; bounded for each scope, so that a flood of account names, which any
/// client can invent, evicts no count of an address, and the reverse.
final class MemoryThrottle: Sendable {
    private let tables = Mutex<[ThrottleKey.Scope: BoundedExpiringTable<ThrottleKey, ThrottleState>]>([:])
    private let capacity: Int

    /// - Parameter capacity: The maximum number of states of each scope.
    init(capacity: Int = 100_000) { self.capacity = capacity }

    var count: Int { tables.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    func states(_ keys: [ThrottleKey], now: SessionTime) -> [ThrottleState?] {
        tables.withLock { tables in keys.map { tables[$0.scope]?.value(of: $0, now: now) } }
    }

    func count(_ counters: [ThrottleCounter], now: SessionTime) -> ThrottleResult {
        tables.withLock { tables in
            let states = counters.map { tables[$0.key.scope]?.value(of: $0.key, now: now) }
            let result = ThrottleResult(counters, states, now: now)
            if case .counted(let counts) = result {
                for count in counts {
                    let key = count.counter.key
                    tables[key.scope, default: BoundedExpiringTable(capacity: capacity)].set(
                        key, count.after, lifetime: count.lifetime, now: now)
                }
            }
            return result
        }
    }

    func remove(_ counts: [ThrottleCount], now: SessionTime) {
        tables.withLock { tables in
            for count in counts {
                let key = count.counter.key
                if let new = count.removed(from: tables[key.scope]?.value(of: key, now: now), now: now) {
                    tables[key.scope]?.set(key, new.state, lifetime: new.lifetime, now: now)
                } else {
                    tables[key.scope]?.remove(key)
                }
            }
        }
    }

    func sweep(now: SessionTime) {
        tables.withLock { tables in
            for scope in ThrottleKey.Scope.allCases { tables[scope]?.sweep(now: now) }
        }
    }
}
