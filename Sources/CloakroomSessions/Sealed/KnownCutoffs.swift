import CloakroomCore
import Synchronization

/// The indexes without a cutoff, as far as it is known here: nearly all have none, and a load then needs no second
/// request to the store.
///
/// An entry holds the word of its partition from before the read, so it is valid only while the store would have reported
/// a change. A missing entry means that the store is asked. Bounded: invented or numerous accounts evict entries, and
/// never change the meaning of one.
final class KnownCutoffs: Sendable {
    /// Two generations: if the current one is full, it replaces the previous one.
    private struct Contents {
        var current: [RecordIndex: UInt32] = [:]
        var previous: [RecordIndex: UInt32] = [:]
    }

    private final class Shard: Sendable {
        let contents = Mutex(Contents())
    }

    private static let shardCount = 16
    private let shards = (0..<shardCount).map { _ in Shard() }
    private let capacity: Int

    /// - Parameter capacity: The number of indexes; at most about twice as many are kept.
    init(capacity: Int) {
        self.capacity = max(1, capacity / Self.shardCount)
    }

    var count: Int {
        shards.reduce(0) { $0 + $1.contents.withLock { $0.current.count + $0.previous.count } }
    }

    /// Whether the index has no cutoff.
    /// - Parameter word: The current word of its partition.
    func isAbsent(_ index: RecordIndex, word: UInt32) -> Bool {
        guard word % 2 == 1 else { return false }
        return shard(of: index).contents.withLock { contents in
            (contents.current[index] ?? contents.previous[index]) == word
        }
    }

    /// Records that the index has no cutoff.
    /// - Parameter word: The word of its partition before the cutoff was read.
    func noteAbsent(_ index: RecordIndex, word: UInt32) {
        guard word % 2 == 1 else { return }
        shard(of: index).contents.withLock { contents in
            if contents.current[index] == nil, contents.current.count >= capacity {
                contents.previous = contents.current
                contents.current = [:]
            }
            contents.current[index] = word
        }
    }

    private func shard(of index: RecordIndex) -> Shard {
        let hash =
            switch index {
            case .account(let hash), .providerSession(let hash): hash
            }
        return shards[Int(truncatingIfNeeded: hash) & (Self.shardCount - 1)]
    }
}
