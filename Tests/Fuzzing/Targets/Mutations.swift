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

/// Tokens with a meaning in HTTP/1.1 messages.
enum FuzzDictionary {
    static let all = [
        "\r\n", "\r", "\n", "\r\n\r\n", ":", " ", "\t", ",", ";", "=", "\"", "\u{0}", "\u{7f}", "HTTP/1.1", "HTTP/1.0",
        "Content-Length: ", "Transfer-Encoding: chunked\r\n", "chunked", "identity", "gzip, ", "Connection: ", "close",
        "keep-alive", "Upgrade: websocket\r\n", "TE: trailers\r\n", "Trailer: ", "Expect: 100-continue\r\n",
        "0\r\n\r\n",
        "5\r\nhello\r\n", "0\r\nA: b\r\n\r\n", "7fffffffffffffff", "ffffffffffffffff", "18446744073709551616",
        "X-API-TOKEN",
        "Authorization", "x_forwarded_for", "Max-Forwards: 0\r\n", "X-Client-Cert-Subject", "traceparent",
    ]
}

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
