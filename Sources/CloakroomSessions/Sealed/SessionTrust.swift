import CloakroomCore
import Synchronization

/// Which partitions of the store report their changes, so that data that was read from them may be used later.
///
/// Each partition has a word: odd while the partition is trusted, even while it is not. A change of trust adds 1, and
/// forgetting everything that was read from the partition adds 2. Words never decrease, so
/// the sum of several words is unchanged only if each of them is. A cached session holds such a sum: a lost connection
/// then costs one step per partition, and no cached session is visited.
final class SessionTrust: Sendable {
    /// The maximum number of partitions: the hash slots of a Valkey cluster.
    static let maxPartitions = 16_384

    private let count: Int
    /// 64 KiB, whatever the number of partitions: no lookup takes another step to find them.
    private let words = InlineArray<16_384, Atomic<UInt32>> { _ in Atomic<UInt32>(0) }
    /// The number of trusted partitions. The lock orders changes of trust.
    private let trusted = Mutex(0)
    private let isAnyTrusted = Atomic<Bool>(false)

    /// - Parameter count: The number of partitions, at most ``maxPartitions``.
    init(partitions count: Int = 1) {
        self.count = min(max(1, count), Self.maxPartitions)
    }

    /// Whether any partition is trusted.
    var isAvailable: Bool { isAnyTrusted.load(ordering: .acquiring) }

    func word(_ partition: Int) -> UInt32 { words[index(partition)].load(ordering: .acquiring) }

    /// Sets whether partitions report their changes. Everything that was read from them is forgotten.
    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool) {
        trusted.withLock { trusted in
            for partition in partitions.lazy.map({ $0.clamped(to: 0..<self.count) }).joined() {
                let word = words[partition].load(ordering: .relaxed)
                let wasTrusted = word % 2 == 1
                words[partition].store(word &+ (wasTrusted == areTrusted ? 2 : 1), ordering: .releasing)
                if wasTrusted != areTrusted { trusted += areTrusted ? 1 : -1 }
            }
            isAnyTrusted.store(trusted > 0, ordering: .releasing)
        }
    }

    /// Forgets everything that was read from a partition.
    func forget(_ partition: Int) {
        trusted.withLock { _ in
            let index = index(partition)
            words[index].store(words[index].load(ordering: .relaxed) &+ 2, ordering: .releasing)
        }
    }

    func forgetAll() {
        trusted.withLock { _ in
            for index in 0..<count {
                words[index].store(words[index].load(ordering: .relaxed) &+ 2, ordering: .releasing)
            }
        }
    }

    /// Whether nothing that a stamp covers has changed since.
    func isCurrent(_ stamp: TrustStamp) -> Bool {
        var sum = words[Int(stamp.record)].load(ordering: .acquiring)
        if stamp.first != TrustStamp.none {
            sum &+= words[Int(stamp.first)].load(ordering: .acquiring)
            if stamp.second != TrustStamp.none {
                sum &+= words[Int(stamp.second)].load(ordering: .acquiring)
                if stamp.third != TrustStamp.none { sum &+= words[Int(stamp.third)].load(ordering: .acquiring) }
            }
        }
        return sum == stamp.sum
    }

    /// The stamp of data that is about to be read.
    /// - Parameters:
    ///   - record: The partition of the record.
    ///   - word: The word of that partition before the record was read.
    ///   - indexes: The partitions of at most three cutoffs, which are read after this call.
    /// - Returns: `nil` if the data may not be kept.
    func stamp(record: Int, word: UInt32, indexes: [Int]) -> TrustStamp? {
        guard word % 2 == 1, indexes.count <= 3 else { return nil }
        var stamp = TrustStamp(record: UInt16(index(record)), sum: word)
        for partition in indexes.map(index) where partition != Int(stamp.record) {
            let next = UInt16(partition)
            if next == stamp.first || next == stamp.second { continue }
            let word = self.word(partition)
            guard word % 2 == 1 else { return nil }
            stamp.sum &+= word
            if stamp.first == TrustStamp.none {
                stamp.first = next
            } else if stamp.second == TrustStamp.none {
                stamp.second = next
            } else {
                stamp.third = next
            }
        }
        return stamp
    }

    /// A partition out of range is a defect of the store; it shares the last one, which is safe.
    private func index(_ partition: Int) -> Int { min(max(0, partition), count - 1) }
}

/// The partitions that a cached session was read from, and the sum of their words at that time. 12 bytes.
struct TrustStamp: Sendable, Equatable {
    /// No partition: they are fewer than this.
    static let none = UInt16.max

    var record: UInt16
    var first = TrustStamp.none
    var second = TrustStamp.none
    var third = TrustStamp.none
    var sum: UInt32
}
