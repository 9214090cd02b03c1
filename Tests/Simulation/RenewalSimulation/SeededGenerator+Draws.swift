import TestSupport

/// What the simulation draws.
extension SeededGenerator {
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
