import CloakroomCore
import Synchronization
import TestSupport
import Testing

/// A store that keeps marks for ever.
private final class Marks: MarkStore {
    let kept = Mutex<Set<MarkKey>>([])

    func setMark(
        _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        kept.withLock { $0.insert(key).inserted }
    }

    func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? {
        kept.withLock { kept in keys.contains { kept.contains($0) } ? now.wallTime : nil }
    }
}

@Suite("Timed marks")
struct MarkStoreTests {
    private let now = SessionTime(seconds: 1_000)
    private let keys = (1...3 as ClosedRange<UInt64>).map { KeyedHash(key0: $0, key1: 7) }
    private let parts = [Array("https://id.example.com".utf8), Array("token-1".utf8)]

    @Test("While secrets are rotated, exactly one of two replicas with a common secret sets a mark")
    func rotation() async throws {
        // The newest secret first: a replica that has the new secret, and replicas that do not.
        let hashers = [
            AccountHasher(keys[1], older: [keys[0]]), AccountHasher(keys[0]), AccountHasher(keys[0], older: [keys[1]]),
            AccountHasher(keys[2], older: [keys[1], keys[0]]),
        ]
        for first in hashers {
            for second in hashers {
                let store = Marks()
                let one = first.marks(.usedLogin, of: parts)
                let other = second.marks(.usedLogin, of: parts)
                let isFirst = try await store.setMark(one, lifetime: .seconds(60), now: now)
                let isSecond = try await store.setMark(other, lifetime: .seconds(60), now: now)
                expect(isFirst && !isSecond)
                try await expect(store.hasMark(other, now: now))
            }
        }
    }

    @Test("All replicas set the keys of a mark in one order, whichever secret is their newest")
    func order() async throws {
        /// Records the order.
        final class Recorder: MarkStore {
            let order = Mutex<[MarkKey]>([])

            func setMark(
                _ key: MarkKey, to time: WallTime, lifetime: Duration, now: SessionTime
            ) async throws(SessionStoreError) -> Bool {
                order.withLock { $0.append(key) }
                return true
            }

            func latestMark(_ keys: [MarkKey], now: SessionTime) async throws(SessionStoreError) -> WallTime? { nil }
        }
        var orders: [[MarkKey]] = []
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let hasher = AccountHasher(keys[order[0]], older: order.dropFirst().map { keys[$0] })
            let recorder = Recorder()
            _ = try await recorder.setMark(
                hasher.marks(.logoutToken, of: parts), lifetime: .seconds(60), now: now)
            orders.append(recorder.order.withLock { $0 })
        }
        expect(orders[0].count, equals: 3)
        expect(orders[1] == orders[0] && orders[2] == orders[0])
    }

    @Test("Marks of different scopes, parts and secrets are different")
    func distinct() {
        let hasher = AccountHasher(keys[0], older: [keys[1]])
        var seen: Set<UInt64> = []
        for scope in MarkKey.Scope.allCases {
            for parts in [[[]], [[], []], [[1]], [[1], []], [[], [1]], [[1, 2]], [[1], [2]]] as [[[UInt8]]] {
                let marks = hasher.marks(scope, of: parts)
                expect(marks.map(\.scope), equals: [scope, scope])
                for mark in marks { expect(seen.insert(mark.hash).inserted) }
            }
        }
    }
}
