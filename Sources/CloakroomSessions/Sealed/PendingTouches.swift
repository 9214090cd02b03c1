import CloakroomCore
import NIOCore
import Synchronization

/// Uses of sessions that are not written yet: the latest one per session. Bounded; a use beyond the limit is dropped,
/// and the next one, an eighth of the idle timeout later, is recorded again.
///
/// They are written in passes. A pass tries the new ones, then those that could not be written before, the longest ago
/// first, each once. New ones of a partition that fails wait behind those, so that it delays no other partition.
final class PendingTouches: Sendable {
    private struct State {
        var touches: [UInt64: RecordTouch] = [:]
        /// The sessions whose use was not tried yet, and those whose use could not be written. A session is in one of
        /// the two, or in a batch that is being written.
        var new = CircularBuffer<UInt64>()
        var failed = CircularBuffer<UInt64>()
        /// The number of the failed ones that are still to be tried in this pass.
        var retryCount = 0
        /// The partitions in which the latest attempt has failed.
        var failingPartitions: Set<Int> = []
    }

    /// Some of the uses.
    struct Batch: Sendable {
        /// Empty if all that were checked have to wait.
        var touches: [RecordTouch] = []
        /// Whether they could not be written before.
        let isRetry: Bool
    }

    private let capacity: Int
    private let partition: @Sendable (SessionID) -> Int
    private let state = Mutex(State())

    /// - Parameter partition: The partition of the store with the record of an id.
    init(capacity: Int, partition: @escaping @Sendable (SessionID) -> Int = { _ in 0 }) {
        self.capacity = max(1, capacity)
        self.partition = partition
    }

    var isEmpty: Bool { state.withLock(\.touches.isEmpty) }

    func note(_ touch: RecordTouch) {
        state.withLock { state in
            let id = touch.id.value
            if let known = state.touches[id] {
                if known.lastUsedAt < touch.lastUsedAt { state.touches[id] = touch }
            } else if state.touches.count < capacity {
                state.touches[id] = touch
                state.new.append(id)
            }
        }
    }

    /// The time of the last use of a session, if it is not written yet.
    func lastUse(of id: SessionID) -> SessionTime? {
        state.withLock { $0.touches[id.value]?.lastUsedAt }
    }

    func beginPass() {
        state.withLock { $0.retryCount = $0.failed.count }
    }

    /// The next uses of this pass. They stay here until ``finish(_:unwritten:)``, so that nothing is lost if they cannot
    /// be written.
    /// - Returns: `nil` at the end of the pass.
    func next(limit: Int) -> Batch? {
        state.withLock { state in
            guard state.new.isEmpty else { return nextNew(limit, &state) }
            guard state.retryCount > 0 else { return nil }
            var batch = Batch(isRetry: true)
            for _ in 0..<min(limit, state.retryCount) {
                state.retryCount -= 1
                guard let id = state.failed.popFirst(), let touch = state.touches[id] else { continue }
                batch.touches.append(touch)
            }
            return batch
        }
    }

    private func nextNew(_ limit: Int, _ state: inout State) -> Batch {
        var batch = Batch(isRetry: false)
        for _ in 0..<min(limit, state.new.count) {
            guard let id = state.new.popFirst(), let touch = state.touches[id] else { continue }
            if !state.failingPartitions.isEmpty, state.failingPartitions.contains(partition(touch.id)) {
                state.failed.append(id)
            } else {
                batch.touches.append(touch)
            }
        }
        return batch
    }

    /// Removes the written uses of a batch, unless there was a later one since. The others are tried again in the next
    /// pass.
    func finish(_ batch: Batch, unwritten: Set<SessionID>) {
        state.withLock { state in
            for touch in batch.touches {
                let id = touch.id.value
                if unwritten.contains(touch.id) {
                    state.failed.append(id)
                    state.failingPartitions.insert(partition(touch.id))
                    continue
                }
                if !state.failingPartitions.isEmpty { state.failingPartitions.remove(partition(touch.id)) }
                if state.touches[id] == touch { state.touches[id] = nil } else { state.new.append(id) }
            }
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
