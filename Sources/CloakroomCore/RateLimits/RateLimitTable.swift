import Synchronization

/// How much the keys of all rate limits have used, for all event loops of the process.
///
/// A generic cell rate algorithm (GCRA, ITU-T I.371): for each key the table has the time up to which its requests are
/// paid for. A time that has passed equals an absent key, so nothing has to expire. The memory is allocated once, 16
/// bytes a key, and does not grow: a key is kept in one of 8 slots, and a new one replaces the key that has used least.
/// That is compared in requests, not in seconds: otherwise the keys of slow limits would replace those of fast ones.
///
/// There is no lock. Only the time of a slot is compared when it is exchanged; if two loops replace a key at once, one
/// request is charged to another key, which may reject a request of it, or a key has its burst twice.
///
/// Folder `RateLimits/`: what rate limits count, by which keys, and when a request has to wait.
public final class RateLimitTable: Sendable {
    /// The result of a charge.
    public struct Charge: Sendable, Equatable {
        /// Nanoseconds until a request is permitted; 0 if this one is. Otherwise nothing was charged.
        public var wait: UInt64 = 0
        /// How long the requests so far take at the rate of the limit, in nanoseconds.
        public var used: UInt64 = 0
        /// Whether the key replaced one whose requests were not paid for yet.
        public var isEviction = false
    }

    /// 64 sets. The words of a set are adjacent: the keys of its slots, 0 for none, then the times in nanoseconds up to
    /// which their requests are paid for. The low 6 bits of a key are ``RatePace/shift``.
    private final class Block: Sendable {
        private let words = InlineArray<1_024, Atomic<UInt64>> { _ in Atomic(0) }
        static let sets = 64

        /// - Parameter first: The first word of the set, as in all functions.
        func charge(_ key: UInt64, at first: Int, _ pace: RatePace, now: UInt64) -> Charge {
            while true {
                guard let place = place(of: key, at: first) else {
                    if let charge = insert(key, at: first, pace, now: now) { return charge }
                    continue
                }
                let time = words[place].load(ordering: .relaxed)
                let ahead = time > now ? time - now : 0
                guard ahead <= pace.tolerance else { return Charge(wait: ahead - pace.tolerance, used: ahead) }
                let next = max(time, now) + pace.cost
                if words[place].compareExchange(expected: time, desired: next, ordering: .relaxed).exchanged {
                    return Charge(used: next - now)
                }
            }
        }

        /// Charges a key that is in no slot, in the place of the one that has used least.
        /// - Returns: `nil` if another loop was faster.
        private func insert(_ key: UInt64, at first: Int, _ pace: RatePace, now: UInt64) -> Charge? {
            var (place, old, least) = (0, UInt64(0), UInt64.max)
            for index in times(at: first) {
                let time = words[index].load(ordering: .relaxed)
                let shift = words[index - RateLimitTable.slots].load(ordering: .relaxed) & 63
                let used = time > now ? (time - now) >> shift : 0
                if used < least { (place, old, least) = (index, time, used) }
            }
            guard words[place].compareExchange(expected: old, desired: now + pace.cost, ordering: .relaxed).exchanged
            else { return nil }
            words[place - RateLimitTable.slots].store(key, ordering: .relaxed)
            return Charge(used: pace.cost, isEviction: old > now)
        }

        /// Changes the time of a key, if it is in a slot.
        /// - Parameter next: Returns `nil` to leave it.
        func change(_ key: UInt64, at first: Int, _ next: (UInt64) -> UInt64?) {
            while let place = place(of: key, at: first) {
                let time = words[place].load(ordering: .relaxed)
                guard let next = next(time) else { return }
                if words[place].compareExchange(expected: time, desired: next, ordering: .relaxed).exchanged { return }
            }
        }

        /// Sets all times to 0, and returns those that were later.
        func drain() -> [(key: UInt64, time: UInt64)] {
            (0..<Self.sets).flatMap { times(at: $0 * 2 * RateLimitTable.slots) }.compactMap { index in
                guard words[index].load(ordering: .relaxed) > 0 else { return nil }
                let key = words[index - RateLimitTable.slots].load(ordering: .relaxed)
                return (key, words[index].exchange(0, ordering: .relaxed))
            }
        }

        /// The index of the time of a key.
        private func place(of key: UInt64, at first: Int) -> Int? {
            for index in first..<first + RateLimitTable.slots where words[index].load(ordering: .relaxed) == key {
                return index + RateLimitTable.slots
            }
            return nil
        }

        private func times(at first: Int) -> Range<Int> {
            first + RateLimitTable.slots..<first + 2 * RateLimitTable.slots
        }

        /// Number of keys of a set that have used something.
        func count(at first: Int, now: UInt64) -> Int {
            times(at: first).count { words[$0].load(ordering: .relaxed) > now }
        }
    }

    private static let slots = 8
    private let blocks: [Block]
    /// A reference from ``blocks`` costs a retain and a release, which all event loops contend for: 9 ns instead of 4 for
    /// a key in the cache.
    private let references: [Unmanaged<Block>]

    /// The number of keys that have a slot.
    public let capacity: Int

    /// - Parameter keys: The minimum number of slots, rounded up to a multiple of 512.
    public init(keys: Int) {
        let perBlock = Block.sets * Self.slots
        blocks = (0..<max(1, (keys + perBlock - 1) / perBlock)).map { _ in Block() }
        references = blocks.map { Unmanaged.passUnretained($0) }
        capacity = blocks.count * perBlock
    }

    /// Charges a request to a key if the limit permits it.
    /// - Parameters:
    ///   - key: See ``RateKey``.
    ///   - now: Nanoseconds of a monotonic clock, the same for all calls.
    public func charge(_ key: UInt64, _ pace: RatePace, now: UInt64) -> Charge {
        withBlock(of: key, pace) { $0.charge($1, at: $2, pace, now: now) }
    }

    /// Takes a charge back. Without effect if the key was replaced. If the request would have been paid for since, the
    /// key may send one more.
    public func refund(_ key: UInt64, _ pace: RatePace) {
        withBlock(of: key, pace) { $0.change($1, at: $2) { $0 >= pace.cost ? $0 - pace.cost : nil } }
    }

    /// Makes the time up to which the requests of a key are paid for at least this one. Without effect if the key was
    /// replaced.
    func raise(_ key: UInt64, _ pace: RatePace, to time: UInt64) {
        withBlock(of: key, pace) { $0.change($1, at: $2) { $0 < time ? time : nil } }
    }

    /// - Parameter body: Gets the block of a key, the key as it is stored, and the first word of its set.
    @inline(__always)
    private func withBlock<Result>(
        of key: UInt64, _ pace: RatePace, _ body: (Block, UInt64, Int) -> Result
    ) -> Result {
        let set = set(of: key)
        return references[set / Block.sets]._withUnsafeGuaranteedRef {
            // Never 0, which is no key.
            body($0, (key | 64) & ~63 | pace.shift, set % Block.sets * 2 * Self.slots)
        }
    }

    /// Removes all keys, and returns their times.
    func drain() -> [(key: UInt64, time: UInt64)] { blocks.flatMap { $0.drain() } }

    /// The number of keys that have used something, estimated from at most 8,192 sets.
    public func count(now: UInt64) -> Int {
        let sets = blocks.count * Block.sets
        let step = max(1, sets / 8_192)
        var count = 0
        for set in stride(from: 0, to: sets, by: step) {
            count += blocks[set / Block.sets].count(at: set % Block.sets * 2 * Self.slots, now: now)
        }
        return count * step
    }

    /// The set of a key, which is random: its high bits decide.
    private func set(of key: UInt64) -> Int {
        Int(truncatingIfNeeded: key.multipliedFullWidth(by: UInt64(blocks.count * Block.sets)).high)
    }
}
