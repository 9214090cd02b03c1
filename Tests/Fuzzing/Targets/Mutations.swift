import TestSupport

/// Mutations of the inputs of a corpus, reproducible by seed and turn.
public struct Mutations: Sendable {
    private let corpus: [[UInt8]]
    private let words: [[UInt8]]
    private let seed: UInt64
    /// The maximum length: longer inputs take more time and find nothing else.
    private static let longest = 8_192

    /// Creates a source of inputs.
    public init(of corpus: [[UInt8]], words: [[UInt8]], seed: UInt64) {
        self.corpus = corpus.isEmpty ? [[]] : corpus
        self.words = words
        self.seed = seed
    }

    /// The input of a turn.
    public func input(_ turn: UInt64) -> [UInt8] {
        var generator = SeededGenerator(seed: seed &+ turn &* 0x2545_f491_4f6c_dd1d)
        var bytes = corpus[Int.random(in: corpus.indices, using: &generator)]
        for _ in 0..<(1 << Int.random(in: 0...4, using: &generator)) {
            mutate(&bytes, using: &generator)
        }
        return Array(bytes.prefix(Self.longest))
    }

    private func mutate(_ bytes: inout [UInt8], using generator: inout SeededGenerator) {
        let place = Int.random(in: 0...bytes.count, using: &generator)
        let end = Int.random(in: place...min(place + 16, bytes.count), using: &generator)
        switch Int.random(in: 0..<9, using: &generator) {
        case 0: if place < bytes.count { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator) }
        case 1: if place < bytes.count { bytes[place] = UInt8.random(in: 0...255, using: &generator) }
        case 2: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
        case 3: bytes.removeSubrange(place..<end)
        case 4: bytes.insert(contentsOf: bytes[place..<end], at: Int.random(in: 0...bytes.count, using: &generator))
        case 5: bytes.removeSubrange(place...)
        case 6:
            let other = corpus[Int.random(in: corpus.indices, using: &generator)]
            bytes = Array(bytes[..<place]) + other[Int.random(in: 0...other.count, using: &generator)...]
        default:
            guard !words.isEmpty else { return }
            let word = words[Int.random(in: words.indices, using: &generator)]
            bytes.replaceSubrange(place..<(Bool.random(using: &generator) ? place : end), with: word)
        }
    }
}
