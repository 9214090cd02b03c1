import CloakroomCore
import Synchronization

/// The state of the sign-in throttle, in this process; bounded. At the limit the state that expires first is evicted.
/// Address states expire within minutes, so a flood of addresses does not evict the states of accounts.
final class MemoryThrottle: Sendable {
    private struct Entry {
        var state: ThrottleState
        var forgetAt: Timestamp
    }

    private struct Contents {
        var entries: [ThrottleKey: Entry] = [:]
        var deadlines = ExpiryHeap<ThrottleKey>()
    }

    private let capacity: Int
    private let contents = Mutex(Contents())

    init(capacity: Int = 100_000) {
        self.capacity = max(1, capacity)
    }

    var count: Int { contents.withLock { $0.entries.count } }

    func states(_ keys: [ThrottleKey], now: Timestamp) -> [ThrottleState?] {
        contents.withLock { contents in keys.map { Self.state(of: $0, in: contents, now: now) } }
    }

    func replace(
        _ key: ThrottleKey, _ old: ThrottleState?, with new: ThrottleState?, lifetime: Duration, now: Timestamp
    ) -> Bool {
        contents.withLock { contents in
            guard Self.state(of: key, in: contents, now: now) == old else { return false }
            guard let new else {
                contents.entries[key] = nil
                return true
            }
            if contents.entries[key] == nil { makeRoom(&contents, now: now) }
            let forgetAt = now + lifetime
            contents.entries[key] = Entry(state: new, forgetAt: forgetAt)
            contents.deadlines.push(ExpiryHeap.Entry(deadline: forgetAt.milliseconds, id: key))
            // Each change leaves a stale entry; the entries are rebuilt if most are stale.
            if contents.deadlines.count > 2 * contents.entries.count + 64 {
                contents.deadlines = ExpiryHeap(
                    contents.entries.map { ExpiryHeap.Entry(deadline: $0.value.forgetAt.milliseconds, id: $0.key) })
            }
            return true
        }
    }

    func sweep(now: Timestamp) {
        contents.withLock { contents in
            while Self.dropNext(&contents, now: now.milliseconds) {}
        }
    }

    private func makeRoom(_ contents: inout Contents, now: Timestamp) {
        guard contents.entries.count >= capacity else { return }
        while Self.dropNext(&contents, now: now.milliseconds) {}
        while contents.entries.count >= capacity, Self.dropNext(&contents, now: .max) {}
    }

    private static func dropNext(_ contents: inout Contents, now: Int64) -> Bool {
        guard let next = contents.deadlines.popDue(now: now) else { return false }
        if contents.entries[next.id]?.forgetAt.milliseconds == next.deadline { contents.entries[next.id] = nil }
        return true
    }

    private static func state(of key: ThrottleKey, in contents: Contents, now: Timestamp) -> ThrottleState? {
        guard let entry = contents.entries[key], now < entry.forgetAt else { return nil }
        return entry.state
    }
}
