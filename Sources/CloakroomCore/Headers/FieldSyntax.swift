public import CloakroomWire

/// Iterates over the members of a comma-separated list (RFC 9110 §5.6.1).
struct ListTokenIterator {
    private var index: Int
    private let end: Int

    init(_ range: ByteRange) {
        index = range.start
        end = range.end
    }

    mutating func next(_ bytes: Span<UInt8>) -> ByteRange? {
        while index < end, bytes[index] == 0x2c || bytes[index] == 0x20 || bytes[index] == 0x09 { index += 1 }
        guard index < end else { return nil }
        let start = index
        index = FieldScan.first(0x2c, in: bytes, from: index, to: end)
        var last = index
        while last > start, bytes[last - 1] == 0x20 || bytes[last - 1] == 0x09 { last -= 1 }
        return ByteRange(start: start, count: last - start)
    }
}

/// Searches field values.
enum FieldScan {
    /// Returns the position of the first such byte, or `end` if there is none. Checks eight bytes at a time.
    @inline(__always)
    static func first(_ byte: UInt8, in bytes: Span<UInt8>, from start: Int, to end: Int) -> Int {
        precondition(start >= 0 && end <= bytes.count)
        let ones: UInt64 = 0x0101_0101_0101_0101
        let pattern = UInt64(byte) &* ones
        let raw = bytes.bytes
        var index = start
        while end &- index >= 8 {
            // Any eight bytes are a valid integer, and they are within the bounds checked above.
            let word = UInt64(littleEndian: raw.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)) ^ pattern
            // The lowest high bit that is set is that of the first zero byte.
            let zeros = (word &- ones) & ~word & 0x8080_8080_8080_8080
            if zeros != 0 { return index &+ zeros.trailingZeroBitCount >> 3 }
            index &+= 8
        }
        while index < end, bytes[index] != byte { index += 1 }
        return index
    }

    /// The part of a range without white space around it.
    static func trimmed(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Range<Int> {
        var start = range.lowerBound
        var end = range.upperBound
        while start < end, bytes[start] == 0x20 || bytes[start] == 0x09 { start += 1 }
        while end > start, bytes[end - 1] == 0x20 || bytes[end - 1] == 0x09 { end -= 1 }
        return start..<end
    }
}

/// Compares case-insensitive names and tokens (RFC 9110 §5.1).
enum ASCII {
    /// - Parameter text: In lower case.
    static func equals(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: StaticString) -> Bool {
        text.withUTF8Buffer { equals(bytes, range, $0.span) }
    }

    /// - Parameter text: In lower case.
    static func equals(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: [UInt8]) -> Bool {
        equals(bytes, range, text.span)
    }

    /// Compares eight bytes at a time, the last ones of which may be compared twice.
    private static func equals(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: Span<UInt8>) -> Bool {
        let last = range.count - 8
        guard range.count == text.count else { return false }
        guard last >= 0 else {
            for offset in 0..<range.count where lower(bytes[range.start + offset]) != text[offset] { return false }
            return true
        }
        var offset = 0
        while word(bytes, range.start + offset, isFolded: true) == word(text, offset, isFolded: false) {
            if offset == last { return true }
            offset = min(offset + 8, last)
        }
        return false
    }

    /// Eight bytes, in lower case if they are folded.
    @inline(__always)
    private static func word(_ bytes: Span<UInt8>, _ index: Int, isFolded: Bool) -> UInt64 {
        let word = bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
        guard isFolded else { return word }
        let low = word & 0x7f7f_7f7f_7f7f_7f7f
        // The high bit of each byte: set if it is at least `A`, at most `Z`, and ASCII.
        let isUpper = (low &+ 0x3f3f_3f3f_3f3f_3f3f) & ~(low &+ 0x2525_2525_2525_2525) & ~word & 0x8080_8080_8080_8080
        return word | isUpper >> 2
    }

    /// Compares case-sensitively.
    static func equalsCaseSensitive(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: StaticString) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { expected in
            for offset in 0..<range.count where bytes[range.start + offset] != expected[offset] { return false }
            return true
        }
    }

    /// - Parameter text: In lower case.
    static func hasPrefix(_ bytes: Span<UInt8>, _ range: ByteRange, _ text: StaticString) -> Bool {
        guard range.count >= text.utf8CodeUnitCount else { return false }
        return equals(bytes, ByteRange(start: range.start, count: text.utf8CodeUnitCount), text)
    }

    static func equals(_ bytes: Span<UInt8>, _ left: ByteRange, _ right: ByteRange) -> Bool {
        guard left.count == right.count else { return false }
        for offset in 0..<left.count where lower(bytes[left.start + offset]) != lower(bytes[right.start + offset]) {
            return false
        }
        return true
    }

    static func lower(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }
}

/// The value of a request field that may occur only once.
public enum SingletonField: Sendable, Equatable {
    case absent
    /// The position of the value.
    case value(ByteRange)
    /// The field occurs more than once, so none of its values is reliable.
    case multiple

    /// Adds another occurrence of the field.
    package mutating func add(_ range: ByteRange) {
        self = self == .absent ? .value(range) : .multiple
    }
}
