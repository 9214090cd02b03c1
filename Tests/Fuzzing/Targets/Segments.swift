import TestSupport

/// Ways to cut an input. They depend on the input only, so that a violation can be reproduced.
enum Segments {
    /// The end offsets of the pieces, in ascending order; the last one is the length of the input.
    static func random(in bytes: [UInt8], turn: UInt64 = 0) -> [Int] {
        guard bytes.count > 1 else { return [bytes.count] }
        var generator = SeededGenerator(seed: hash(bytes) &+ turn)
        let count = Int.random(in: 1...8, using: &generator)
        let cuts = (0..<count).map { _ in Int.random(in: 1..<bytes.count, using: &generator) }
        return cuts.sorted() + [bytes.count]
    }

    /// One byte in each piece. Only the first 2,048 bytes, because an incomplete line is parsed again with each byte.
    static func single(in bytes: [UInt8]) -> [Int] {
        Array(bytes.indices.prefix(2_048)) + [bytes.count]
    }

    /// FNV-1a.
    private static func hash(_ bytes: [UInt8]) -> UInt64 {
        bytes.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}
