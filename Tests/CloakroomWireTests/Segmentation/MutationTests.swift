import CloakroomWire
import TestSupport
import Testing

@Suite("Mutated messages")
struct MutationTests {
    /// Bytes with a meaning in HTTP.
    private static let telling = Array("\r\n\t :;,=/0159afAF+-_ \u{0}\u{7f}HTTP1.chunked".utf8)

    @Test("never crash the parser, and give the same result for every split: requests")
    func requests() {
        run((RequestHeadCorpus.all + RequestBodyCorpus.all).map(\.bytes), .requests, seed: 1)
    }

    @Test("never crash the parser, and give the same result for every split: responses")
    func responses() {
        run(ResponseCorpus.all.map(\.bytes), .responses(isToHead: false), seed: 2)
    }

    /// At most 10,000 messages and about one second; the seed of a failure reproduces it.
    private func run(_ corpus: [[UInt8]], _ direction: MessageReader.Direction, seed first: UInt64) {
        let start = ContinuousClock.now
        let limits = HeadLimits(fields: 3, target: 20)
        var count: UInt64 = 0
        while count < 10_000, ContinuousClock.now - start < .seconds(1) {
            let seed = first << 32 | count
            var generator = SeededGenerator(seed: seed)
            let bytes = Self.mutated(corpus, using: &generator)
            let whole = MessageReader.read(bytes, direction, limits: limits)
            let cuts = ChunkBoundaries.random(in: bytes.count, using: &generator)
            let pieces = MessageReader.read(bytes, direction, limits: limits, cuts: cuts)
            guard pieces == whole else {
                #expect(pieces == whole, "seed \(seed): \(String(decoding: bytes, as: UTF8.self).debugDescription)")
                return
            }
            count += 1
        }
        #expect(count > 0)
    }

    private static func mutated(_ corpus: [[UInt8]], using generator: inout SeededGenerator) -> [UInt8] {
        var bytes = corpus[Int.random(in: corpus.indices, using: &generator)]
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            let place = Int.random(in: 0...bytes.count, using: &generator)
            let end = Int.random(in: place...min(place + 12, bytes.count), using: &generator)
            switch Int.random(in: 0..<6, using: &generator) {
            case 0: bytes.insert(telling[Int.random(in: telling.indices, using: &generator)], at: place)
            case 1: bytes.insert(UInt8.random(in: 0...255, using: &generator), at: place)
            case 2: bytes.removeSubrange(place..<end)
            case 3: bytes.insert(contentsOf: bytes[place..<end], at: place)
            case 4: bytes += corpus[Int.random(in: corpus.indices, using: &generator)]
            default:
                if place < bytes.count { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &generator) }
            }
        }
        return bytes
    }
}
