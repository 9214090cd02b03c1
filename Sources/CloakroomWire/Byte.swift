/// Character classes of HTTP (RFC 9110 §5.5, §5.6).
public enum Byte {
    static let cr: UInt8 = 0x0d
    static let lf: UInt8 = 0x0a
    static let space: UInt8 = 0x20
    static let tab: UInt8 = 0x09
    static let colon: UInt8 = 0x3a
    static let semicolon: UInt8 = 0x3b
    static let period: UInt8 = 0x2e
    static let delete: UInt8 = 0x7f

    /// Whether the byte is allowed in a token (RFC 9110 §5.6.2).
    @inline(__always)
    public static func isToken(_ byte: UInt8) -> Bool {
        // Bit n of a mask is set if byte n (or 64 + n) is a token character.
        let low: UInt64 = 0x03ff_6cfa_0000_0000
        let high: UInt64 = 0x57ff_ffff_c7ff_fffe
        return isIn(byte, low: low, high: high)
    }

    /// Whether the byte's bit is set: bit n of the first mask is for byte n, bit n of the second one for byte 64 + n.
    @inlinable @inline(__always)
    public static func isIn(_ byte: UInt8, low: UInt64, high: UInt64) -> Bool {
        if byte < 64 { return low >> UInt64(byte) & 1 != 0 }
        return byte < 128 && high >> UInt64(byte - 64) & 1 != 0
    }

    /// Whether the byte is allowed in a field value: visible, blank, or not ASCII.
    @inline(__always)
    static func isFieldText(_ byte: UInt8) -> Bool {
        (byte >= 0x20 && byte != 0x7f) || byte == 0x09
    }

    /// Returns the end of field text: the position of the first byte that is not allowed in it, or `end`.
    ///
    /// Checks eight bytes at a time while all are at least 0x20 and none is DEL; most bytes of a head are in values.
    @inline(__always)
    package static func endOfFieldText(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var index = start
        while end &- index >= 8 {
            let stops = stops(word(bytes, at: index), below: 0x20)
            if stops == 0 {
                index &+= 8
            } else {
                index &+= stops.trailingZeroBitCount >> 3
                guard bytes[index] == tab else { return index }
                index &+= 1
            }
        }
        while index < end, isFieldText(bytes[index]) { index += 1 }
        return index
    }

    /// Returns the end of a run of bytes that are visible or not ASCII: the position of the first other byte, or `end`.
    @inline(__always)
    static func endOfVisible(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var index = start
        while end &- index >= 8 {
            let stops = stops(word(bytes, at: index), below: 0x21)
            if stops != 0 { return index &+ stops.trailingZeroBitCount >> 3 }
            index &+= 8
        }
        while index < end, bytes[index] > space, bytes[index] != delete { index += 1 }
        return index
    }

    /// Returns the end of a token: the position of the first byte that is not allowed in it, or `end`.
    ///
    /// Checks eight bytes at a time while all are letters or hyphens, as in most names.
    @inline(__always)
    static func endOfToken(_ bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        var index = start
        while end &- index >= 8 {
            let word = word(bytes, at: index)
            let folded = (word | 0x2020_2020_2020_2020) & lowBits
            // High bit of each byte: set where the folded byte is at least `a`, and where it is above `z`.
            let isLetter = (folded &+ 0x1f1f_1f1f_1f1f_1f1f) & ~(folded &+ 0x0505_0505_0505_0505)
            // High bit of each byte: set where the low seven bits are not those of a hyphen.
            let isNotHyphen = ((word ^ 0x2d2d_2d2d_2d2d_2d2d) & lowBits) &+ lowBits
            let others = (~isLetter & isNotHyphen | word) & highBits
            guard others == 0 else {
                index &+= others.trailingZeroBitCount >> 3
                break
            }
            index &+= 8
        }
        while index < end, isToken(bytes[index]) { index += 1 }
        return index
    }

    private static var lowBits: UInt64 { 0x7f7f_7f7f_7f7f_7f7f }
    private static var highBits: UInt64 { 0x8080_8080_8080_8080 }

    /// Eight bytes, the first one in the least significant byte.
    @inline(__always)
    private static func word(_ bytes: Span<UInt8>, at index: Int) -> UInt64 {
        UInt64(littleEndian: bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
    }

    /// The high bit of each byte of the result is set where the byte is DEL, or ASCII and below `limit`; the other bits
    /// are clear.
    @inline(__always)
    private static func stops(_ word: UInt64, below limit: UInt8) -> UInt64 {
        let atLeast = UInt64(0x80 - limit) &* 0x0101_0101_0101_0101
        let isText = ((word & lowBits) &+ atLeast) | word
        let isNotDelete = ((word ^ lowBits) & lowBits) &+ lowBits | (word ^ lowBits)
        return ~(isText & isNotDelete) & highBits
    }

    /// Whether the byte is optional white space.
    @inline(__always)
    package static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09
    }

    /// Returns the byte with a letter in lower case.
    @inlinable @inline(__always)
    package static func lowerCase(_ byte: UInt8) -> UInt8 {
        byte &- UInt8(ascii: "A") < 26 ? byte | 0x20 : byte
    }

    /// Whether the byte is an ASCII letter or digit.
    @inlinable @inline(__always)
    package static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        lowerCase(byte) &- UInt8(ascii: "a") < 26 || byte &- UInt8(ascii: "0") < 10
    }

    /// Returns the value of a decimal digit.
    @inline(__always)
    static func decimal(_ byte: UInt8) -> Int? {
        byte >= 0x30 && byte <= 0x39 ? Int(byte) - 0x30 : nil
    }

    /// Returns the value of a decimal number without a sign, at most `largest`; `nil` if there is no digit or another
    /// byte.
    package static func number(_ digits: Span<UInt8>, atMost largest: Int) -> Int? {
        guard digits.count > 0 else { return nil }
        var value = 0
        for index in 0..<digits.count {
            guard let digit = decimal(digits[index]) else { return nil }
            let (product, isOverflow) = value.multipliedReportingOverflow(by: 10)
            value = isOverflow || product > largest - digit ? largest : product + digit
        }
        return value
    }

    /// Returns the value of a hexadecimal digit.
    @inlinable @inline(__always)
    public static func hexadecimal(_ byte: UInt8) -> UInt64? {
        switch byte {
        case 0x30...0x39: UInt64(byte - 0x30)
        case 0x41...0x46: UInt64(byte - 0x41 + 10)
        case 0x61...0x66: UInt64(byte - 0x61 + 10)
        default: nil
        }
    }

    /// Returns the lower-case hexadecimal digit of a value below 16.
    @inlinable @inline(__always)
    public static func hexDigit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") &+ nibble : UInt8(ascii: "a") &+ (nibble &- 10)
    }

    /// Returns a text with all bytes percent-encoded in upper case (RFC 3986 §2.1) except those that are kept.
    package static func percentEncoded(_ text: String, keeping isKept: (UInt8) -> Bool) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            if isKept(byte) {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xf)]]
            }
        }
        return bytes
    }

    /// Returns two lower-case hexadecimal digits for each byte.
    public static func hexString(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.flatMap { [hexDigit($0 >> 4), hexDigit($0 & 0xf)] }, as: UTF8.self)
    }

    /// Returns the eight lower-case hexadecimal digits of a number, the first one in the most significant byte.
    ///
    /// Ids are written several times per request; writing single digits took 5 % of its instructions.
    @inlinable
    public static func hexDigits(_ value: UInt32) -> UInt64 {
        // Spread the nibbles to one byte each.
        var digits = UInt64(value)
        digits = (digits & 0x0000_ffff) | (digits & 0xffff_0000) << 16
        digits = (digits & 0x0000_00ff_0000_00ff) | (digits & 0x0000_ff00_0000_ff00) << 8
        digits = (digits & 0x000f_000f_000f_000f) | (digits & 0x00f0_00f0_00f0_00f0) << 4
        // 1 in each byte that becomes a letter: letters are 39 code points above the continuation of the digits.
        let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return digits &+ 0x3030_3030_3030_3030 &+ letters &* 39
    }
}

/// A range of bytes within a message head.
public struct ByteRange: Sendable, Equatable {
    /// Offset of the first byte, 0...65,535.
    public var start: Int
    /// The number of bytes, 0...65,535.
    public var count: Int

    /// Creates a range.
    @inlinable
    public init(start: Int, count: Int) {
        self.start = start
        self.count = count
    }

    /// Offset after the last byte.
    @inlinable
    public var end: Int { start + count }
    /// Whether the range has no bytes.
    @inlinable
    public var isEmpty: Bool { count == 0 }
}
