/// Numbers that look random and are the same for the same seed, in every process (Steele, Lea, Flood 2014).
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// A number from 0, less than `bound`.
    mutating func below(_ bound: Int) -> Int {
        bound <= 1 ? 0 : Int(truncatingIfNeeded: ((next() >> 32) &* UInt64(bound)) >> 32)
    }

    /// Milliseconds between two bounds, both of which may come.
    mutating func between(_ lower: Int64, _ upper: Int64) -> Int64 {
        lower + Int64(below(Int(upper - lower) + 1))
    }

    /// Whether something happens that happens so many times in a thousand.
    mutating func chance(_ permille: Int) -> Bool {
        permille > 0 && below(1_000) < permille
    }
}
