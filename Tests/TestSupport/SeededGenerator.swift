/// Pseudorandom numbers that are determined by the seed (SplitMix64; Steele, Lea, Flood 2014), so that failures can be
/// reproduced.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    /// Starts a sequence of numbers.
    package init(seed: UInt64) {
        state = seed
    }

    /// The next number.
    package mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var word = state
        word = (word ^ word >> 30) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ word >> 27) &* 0x94d0_49bb_1331_11eb
        return word ^ word >> 31
    }
}

/// Random values for the simulations.
extension SeededGenerator {
    /// An integer from 0 to `bound` - 1.
    package mutating func below(_ bound: Int) -> Int {
        bound <= 1 ? 0 : Int(truncatingIfNeeded: ((next() >> 32) &* UInt64(bound)) >> 32)
    }

    /// A time in milliseconds between two bounds, both included.
    package mutating func between(_ lower: Int64, _ upper: Int64) -> Int64 {
        lower + Int64(below(Int(upper - lower) + 1))
    }

    /// Whether an event with a probability in thousandths occurs.
    package mutating func chance(_ permille: Int) -> Bool {
        permille > 0 && below(1_000) < permille
    }
}
