import TestSupport

/// Generates offsets at which input is split.
enum ChunkBoundaries {
    /// Returns up to eight ascending offsets, uniformly distributed.
    static func random(in count: Int, using generator: inout SeededGenerator) -> [Int] {
        guard count > 1 else { return [] }
        let pieces = Int.random(in: 1...8, using: &generator)
        return (0..<pieces).map { _ in Int.random(in: 1..<count, using: &generator) }.sorted()
    }
}
