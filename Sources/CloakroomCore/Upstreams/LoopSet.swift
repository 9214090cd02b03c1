import Synchronization

/// A set of event loops, as a bitmap.
public final class LoopSet: Sendable {
    private let words = InlineArray<4, Atomic<UInt64>> { _ in Atomic<UInt64>(0) }

    /// Adds a loop, 0...255.
    /// - Returns: Whether it was not in the set.
    @discardableResult
    public func insert(_ loop: Int) -> Bool {
        let bit: UInt64 = 1 << UInt64(loop & 63)
        return words[loop >> 6 & 3].bitwiseOr(bit, ordering: .sequentiallyConsistent).oldValue & bit == 0
    }

    /// Removes a loop.
    /// - Returns: Whether it was in the set.
    @discardableResult
    public func remove(_ loop: Int) -> Bool {
        let bit: UInt64 = 1 << UInt64(loop & 63)
        return words[loop >> 6 & 3].bitwiseAnd(~bit, ordering: .sequentiallyConsistent).oldValue & bit != 0
    }

    func contains(_ loop: Int) -> Bool {
        words[loop >> 6 & 3].load(ordering: .sequentiallyConsistent) & 1 << UInt64(loop & 63) != 0
    }

    /// Whether another loop is in the set.
    public func containsOther(than loop: Int) -> Bool {
        for index in 0..<4 {
            let own: UInt64 = index == loop >> 6 ? 1 << UInt64(loop & 63) : 0
            if words[index].load(ordering: .sequentiallyConsistent) & ~own != 0 { return true }
        }
        return false
    }

    /// Removes the first other loop after a loop, in the order of a ring.
    public func removeNext(after loop: Int) -> Int? {
        for offset in 0...4 {
            let index = (loop >> 6) + offset
            var bits = words[index & 3].load(ordering: .sequentiallyConsistent)
            // The word of the loop itself comes twice: first the bits above, at last the bits below.
            if offset == 0 { bits &= ~(UInt64.max >> UInt64(63 - loop & 63)) }
            if offset == 4 { bits &= (1 << UInt64(loop & 63)) - 1 }
            while bits != 0 {
                let found = (index & 3) << 6 | bits.trailingZeroBitCount
                if remove(found) { return found }
                bits &= bits - 1
            }
        }
        return nil
    }
}
