/// SipHash-2-4 (Aumasson, Bernstein 2012) under a secret key: a pseudonym for a value that must not be disclosed.
///
/// Logs and the index of a user's sessions contain the results. A plain digest of an e-mail address could be found by
/// hashing guessed addresses; without the key this is impossible. Each process generates one key at its start.
public struct KeyedHash: Sendable, Redacted {
    private let key0: UInt64
    private let key1: UInt64

    /// Creates a hash function from a key of 128 bits, given as two words in little endian order.
    public init(key0: UInt64, key1: UInt64) {
        self.key0 = key0
        self.key1 = key1
    }

    /// Creates a hash function with a random key.
    public init(using generator: inout some RandomNumberGenerator) {
        key0 = generator.next()
        key1 = generator.next()
    }

    /// Hashes bytes. The length is part of the hash input, so padding cannot make two inputs equal.
    public func hash(_ bytes: some Sequence<UInt8>) -> UInt64 {
        var state = State(key0: key0, key1: key1)
        var word: UInt64 = 0
        var count: UInt64 = 0
        for byte in bytes {
            word |= UInt64(byte) << (8 * (count & 7))
            count &+= 1
            if count & 7 == 0 {
                state.absorb(word)
                word = 0
            }
        }
        state.absorb(word | count << 56)
        return state.finish()
    }

    /// Hashes parts. The scope and the lengths precede them, so that different parts never have the same concatenation.
    func hash(scope: UInt8, _ parts: [[UInt8]]) -> UInt64 {
        var bytes = [scope]
        bytes.reserveCapacity(parts.reduce(1) { $0 + 8 + $1.count })
        for part in parts {
            bytes += UInt64(part.count).bigEndianBytes
            bytes += part
        }
        return hash(bytes)
    }

    /// Hashes the 16 bytes of two words in little endian order.
    func hash(_ first: UInt64, _ second: UInt64) -> UInt64 {
        var state = State(key0: key0, key1: key1)
        state.absorb(first)
        state.absorb(second)
        state.absorb(16 << 56)
        return state.finish()
    }

    private struct State {
        var v0, v1, v2, v3: UInt64

        init(key0: UInt64, key1: UInt64) {
            v0 = key0 ^ 0x736f_6d65_7073_6575
            v1 = key1 ^ 0x646f_7261_6e64_6f6d
            v2 = key0 ^ 0x6c79_6765_6e65_7261
            v3 = key1 ^ 0x7465_6462_7974_6573
        }

        mutating func absorb(_ word: UInt64) {
            v3 ^= word
            round()
            round()
            v0 ^= word
        }

        mutating func finish() -> UInt64 {
            v2 ^= 0xff
            for _ in 0..<4 { round() }
            return v0 ^ v1 ^ v2 ^ v3
        }

        private mutating func round() {
            v0 &+= v1
            v1 = Self.rotate(v1, 13) ^ v0
            v0 = Self.rotate(v0, 32)
            v2 &+= v3
            v3 = Self.rotate(v3, 16) ^ v2
            v0 &+= v3
            v3 = Self.rotate(v3, 21) ^ v0
            v2 &+= v1
            v1 = Self.rotate(v1, 17) ^ v2
            v2 = Self.rotate(v2, 32)
        }

        private static func rotate(_ word: UInt64, _ bits: UInt64) -> UInt64 {
            word << bits | word >> (64 - bits)
        }
    }
}
