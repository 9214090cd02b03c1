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
        let raw = bytes.bytes
        while index + 8 <= end {
            let word = raw.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
            let low: UInt64 = 0x7f7f_7f7f_7f7f_7f7f
            let high: UInt64 = 0x8080_8080_8080_8080
            // High bit of each byte: set where the low seven bits are at least 0x20, or the byte is not ASCII.
            let isText = ((word & low) &+ 0x6060_6060_6060_6060) | word
            // High bit of each byte: clear where the byte is DEL.
            let isNotDelete = ((word ^ low) & low) &+ low | (word ^ low)
            guard isText & isNotDelete & high == high else { break }
            index += 8
        }
        while index < end, isFieldText(bytes[index]) { index += 1 }
        return index
    }

    /// Whether the byte is optional white space.
    @inline(__always)
    package static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x09
    }

    /// Returns the value of a decimal digit.
    @inline(__always)
    static func decimal(_ byte: UInt8) -> Int? {
        byte >= 0x30 && byte <= 0x39 ? Int(byte) - 0x30 : nil
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
