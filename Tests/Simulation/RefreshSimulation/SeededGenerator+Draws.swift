import TestSupport

/// Random values for the simulation.
extension SeededGenerator {
    /// An integer from 0 to `bound` - 1.
    mutating func below(_ bound: Int) -> Int {
        bound <= 1 ? 0 : Int(truncatingIfNeeded: ((next() >> 32) &* UInt64(bound)) >> 32)
    }

    /// A time in milliseconds between two bounds, both included.
    mutating func between(_ lower: Int64, _ upper: Int64) -> Int64 {
        lower + Int64(below(Int(upper - lower) + 1))
    }

    /// Whether an event with a probability in thousandths occurs.
    mutating func chance(_ permille: Int) -> Bool {
        permille > 0 && below(1_000) < permille
    }
}
