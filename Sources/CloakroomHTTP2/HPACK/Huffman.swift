/// The Huffman code of header strings (RFC 7541 §5.2, appendix B).
package struct Huffman: Sendable {
    package static let shared = Huffman()

    private static let quickBits = 10
    private static let maxLength = 30

    /// By the next ten bits: the symbol, shifted by four bits, and the length of its code; 0 for longer codes.
    private let quick: [UInt16]
    /// The symbols in the order of their codes.
    private let sorted: [UInt16]
    /// By length: the codes of this length and shorter ones are less than this number, aligned to 30 bits.
    private let limits: [UInt32]
    /// By length: the first code of this length, aligned to 30 bits.
    private let bases: [UInt32]
    /// By length: the position in ``sorted`` of the first symbol with a code of this length.
    private let firsts: [Int]
    /// By symbol: the code and its length.
    private let codes: [UInt32]
    private let lengths: [UInt8]

    private init() {
        let lengths = HuffmanLengths.all
        let sorted = lengths.indices.sorted { (lengths[$0], $0) < (lengths[$1], $1) }
        var quick = [UInt16](repeating: 0, count: 1 << Self.quickBits)
        var limits = [UInt32](repeating: 0, count: Self.maxLength + 1)
        var bases = limits
        var firsts = [Int](repeating: 0, count: Self.maxLength + 1)
        var codes = [UInt32](repeating: 0, count: lengths.count)
        var code: UInt32 = 0
        var position = 0
        for length in 1...Self.maxLength {
            code <<= 1
            bases[length] = code << UInt32(Self.maxLength - length)
            firsts[length] = position
            while position < sorted.count, Int(lengths[sorted[position]]) == length {
                let symbol = sorted[position]
                codes[symbol] = code
                if length <= Self.quickBits {
                    let free = Self.quickBits - length
                    for tail in 0..<(1 << free) { quick[Int(code) << free | tail] = UInt16(symbol << 4 | length) }
                }
                code += 1
                position += 1
            }
            limits[length] = code << UInt32(Self.maxLength - length)
        }
        self.quick = quick
        self.sorted = sorted.map { UInt16($0) }
        self.limits = limits
        self.bases = bases
        self.firsts = firsts
        self.codes = codes
        self.lengths = lengths
    }

    // MARK: - Decoding

    /// The maximum length of a decoded string: the shortest codes have five bits.
    @inline(__always)
    package static func maxDecodedCount(_ encoded: Int) -> Int { encoded * 8 / 5 }

    /// Decodes a string.
    /// - Parameters:
    ///   - room: Receives the bytes from `position`.
    /// - Returns: The number of bytes; `nil` if the string contains EOS or its padding is invalid, or the room is too
    ///   small.
    package func decode(
        _ source: Span<UInt8>, from start: Int, count: Int, into room: inout MutableSpan<UInt8>, at position: Int
    ) -> Int? {
        run(source, from: start, to: start + count, keeps: true, into: &room, at: position).map { $0 - position }
    }

    /// Returns the number of bytes of a decoded string; `nil` if the string contains EOS or its padding is invalid.
    package func decodedCount(_ source: Span<UInt8>, from start: Int, count: Int) -> Int? {
        var none = MutableSpan<UInt8>()
        return run(source, from: start, to: start + count, keeps: false, into: &none, at: 0)
    }

    @inline(__always)
    private func run(
        _ source: Span<UInt8>, from start: Int, to end: Int, keeps: Bool, into room: inout MutableSpan<UInt8>,
        at position: Int
    ) -> Int? {
        let quick = quick.span
        let raw = source.bytes
        /// The next bits, left-aligned. Bits after the first `held` ones are those of the input or 0.
        var bits: UInt64 = 0
        var held = 0
        var index = start
        var output = position
        while true {
            if index &+ 8 <= end {
                let word = raw.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
                bits |= UInt64(bigEndian: word) &>> UInt64(truncatingIfNeeded: held)
                let taken = (63 &- held) &>> 3
                index &+= taken
                held &+= taken &<< 3
            } else {
                while held <= 56, index < end {
                    bits |= UInt64(source[index]) &<< UInt64(truncatingIfNeeded: 56 &- held)
                    held &+= 8
                    index &+= 1
                }
            }
            // A code has at most 30 bits.
            while held >= Self.maxLength || (index == end && held > 0) {
                let entry = quick[Int(truncatingIfNeeded: bits &>> 54)]
                var symbol = Int(entry &>> 4)
                var length = Int(entry & 0xf)
                if length == 0 { (symbol, length) = longCode(bits) }
                guard length <= held else { return isPadding(bits, held) ? output : nil }
                guard symbol != HuffmanLengths.endOfString else { return nil }
                if keeps {
                    guard output < room.count else { return nil }
                    room[output] = UInt8(truncatingIfNeeded: symbol)
                }
                output &+= 1
                bits &<<= UInt64(truncatingIfNeeded: length)
                held &-= length
            }
            if index == end { return output }
        }
    }

    /// Returns the symbol at the start of the bits and the length of its code, which is more than ten bits.
    private func longCode(_ bits: UInt64) -> (symbol: Int, length: Int) {
        let code = UInt32(truncatingIfNeeded: bits &>> 34)
        var length = Self.quickBits + 1
        while length < Self.maxLength, code >= limits[length] { length += 1 }
        let offset = (code - bases[length]) >> UInt32(Self.maxLength - length)
        return (Int(sorted[firsts[length] + Int(offset)]), length)
    }

    /// Whether the last bits of a string are padding: at most seven, all 1.
    private func isPadding(_ bits: UInt64, _ held: Int) -> Bool {
        held < 8 && bits >> UInt64(64 - held) == 1 << UInt64(held) - 1
    }

    // MARK: - Encoding

    /// Returns the number of bytes of an encoded string.
    package func encodedCount(_ source: Span<UInt8>, from start: Int, count: Int) -> Int {
        let lengths = lengths.span
        var bits = 0
        for index in start..<(start + count) { bits += Int(lengths[Int(source[index])]) }
        return (bits + 7) / 8
    }

    /// Encodes a string.
    /// - Parameter room: Receives the bytes from `position`; large enough for them.
    package func encode(
        _ source: Span<UInt8>, from start: Int, count: Int, into room: inout MutableSpan<UInt8>, at position: Int
    ) {
        var bits: UInt64 = 0
        var held: UInt64 = 0
        var output = position
        for index in start..<(start + count) {
            let symbol = Int(source[index])
            let length = UInt64(lengths[symbol])
            bits = bits << length | UInt64(codes[symbol])
            held += length
            while held >= 8 {
                held -= 8
                room[output] = UInt8(truncatingIfNeeded: bits >> held)
                output += 1
            }
        }
        guard held > 0 else { return }
        // Padding is the start of EOS: all 1.
        room[output] = UInt8(truncatingIfNeeded: bits << (8 - held)) | 0xff >> UInt8(held)
    }
}

/// The lengths of the codes of RFC 7541, appendix B: one for each byte, then that of EOS.
///
/// The code is canonical: codes of equal length are consecutive numbers in the order of their symbols, and longer codes
/// follow shorter ones. The lengths therefore determine the codes.
package enum HuffmanLengths {
    /// The symbol that marks the end of a string; it never occurs in one (RFC 7541 §5.2).
    static let endOfString = 256

    /// The lengths, by symbol.
    package static let all: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
        28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
        6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
        5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
        13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
        7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
        15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
        6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
        20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
        24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
        22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
        21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
        19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
        20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
        26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
        30,
    ]
}
