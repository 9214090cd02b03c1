import CloakroomCore
import Synchronization

/// The timed marks, in this process; bounded for each scope, so that used logins, which any client can cause, do not
/// evict what providers have reported.
final class MemoryMarks: Sendable {
    private let marks: Mutex<[MarkKey.Scope: BoundedExpiringTable<UInt64, Void>]>
    private let capacity: Int

    init(capacity: Int = 100_000) {
        marks = Mutex([:])
        self.capacity = capacity
    }

    func set(_ key: MarkKey, lifetime: Duration, now: Timestamp) -> Bool {
        marks.withLock { marks in
            var table = marks.removeValue(forKey: key.scope) ?? BoundedExpiringTable(capacity: capacity)
            defer { marks[key.scope] = table }
            guard table.value(of: key.hash, now: now) == nil else { return false }
            table.set(key.hash, (), lifetime: lifetime, now: now)
            return true
        }
    }

    func has(_ key: MarkKey, now: Timestamp) -> Bool {
        marks.withLock { $0[key.scope]?.value(of: key.hash, now: now) != nil }
    }

    func sweep(now: Timestamp) {
        marks.withLock { marks in
            for scope in MarkKey.Scope.allCases { marks[scope]?.sweep(now: now) }
        }
    }
}
