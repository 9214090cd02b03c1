import TestSupport

/// Places to cut a run of bytes.
enum ChunkBoundaries {
    /// Up to eight ascending offsets; every offset is as likely as any other.
    static func random(in count: Int, using generator: inout SeededGenerator) -> [Int] {
        guard count > 1 else { return [] }
        let pieces = Int.random(in: 1...8, using: &generator)
        return (0..<pieces).map { _ in Int.random(in: 1..<count, using: &generator) }.sorted()
    }
}
