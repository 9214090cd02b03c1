import CloakroomCore
import Synchronization

/// The timed marks, in this process; bounded for each scope, so that used logins, which any client can cause, do not
/// evict what providers have reported.
final class MemoryMarks: Sendable {
    private let marks = Mutex<[MarkKey.Scope: BoundedExpiringTable<UInt64, WallTime>]>([:])
    private let capacity: Int

    init(capacity: Int = 100_000) { self.capacity = capacity }

    func set(_ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime) -> Bool {
        marks.withLock { marks in
            if let present = marks[key.scope]?.value(of: key.hash, now: now), present >= time { return false }
            marks[key.scope, default: BoundedExpiringTable(capacity: capacity)].set(
                key.hash, time, lifetime: lifetime, now: now)
            return true
        }
    }

    func latest(_ keys: [MarkKey], now: SessionTime) -> WallTime? {
        marks.withLock { marks in keys.compactMap { marks[$0.scope]?.value(of: $0.hash, now: now) }.max() }
    }

    func sweep(now: SessionTime) {
        marks.withLock { marks in
            for scope in MarkKey.Scope.allCases { marks[scope]?.sweep(now: now) }
        }
    }
}
