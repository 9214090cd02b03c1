/// Bytes of a JSON line in the making. Everything is appended by hand: no intermediate `String`, no encoder.
struct LineBuffer {
    private(set) var bytes: [UInt8] = []

    init(reserving capacity: Int = 256) {
        bytes.reserveCapacity(capacity)
    }

    var count: Int { bytes.count }

    /// The bytes so far, as text.
    var text: String { String(decoding: bytes, as: UTF8.self) }

    /// Gives the bytes away and starts a new buffer.
    mutating func take(reserving capacity: Int) -> [UInt8] {
        var fresh: [UInt8] = []
        fresh.reserveCapacity(capacity)
        swap(&bytes, &fresh)
        return fresh
    }

    mutating func append(byte: UInt8) {
        bytes.append(byte)
    }

    mutating func append(_ other: [UInt8]) {
        bytes.append(contentsOf: other)
    }

    /// Text that needs no escaping.
    mutating func append(_ text: StaticString) {
        // The constant's own memory is copied as one block; there is no other way to read a StaticString.
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// Text that needs no escaping.
    mutating func append(plain text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    mutating func append(decimal value: UInt64) {
        var digits = InlineArray<20, UInt8>(repeating: 0)
        var (rest, first) = (value, 20)
        repeat {
            first -= 1
            digits[first] = UInt8(truncatingIfNeeded: rest % 10) &+ UInt8(ascii: "0")
            rest /= 10
        } while rest > 0
        for index in first..<20 { bytes.append(digits[index]) }
    }

    mutating func append(decimal value: Int64) {
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// A number padded with zeros, for dates: `digits` of them, at most 4.
    mutating func append(padded value: Int, digits: Int) {
        var divisor = digits == 4 ? 1_000 : digits == 3 ? 100 : 10
        for _ in 0..<digits {
            bytes.append(UInt8(truncatingIfNeeded: value / divisor % 10) &+ UInt8(ascii: "0"))
            divisor /= 10
        }
    }

    /// A duration as milliseconds with three decimals.
    mutating func append(milliseconds nanoseconds: UInt64) {
        append(decimal: nanoseconds / 1_000_000)
        bytes.append(UInt8(ascii: "."))
        append(padded: Int(nanoseconds / 1_000 % 1_000), digits: 3)
    }

    /// Sixteen lower-case hexadecimal digits.
    mutating func appendHex(_ value: UInt64) {
        var shift = 60
        while shift >= 0 {
            bytes.append(Hex.digit(UInt8(truncatingIfNeeded: value >> UInt64(shift)) & 0x0f))
            shift -= 4
        }
    }

    /// Thirty-two lower-case hexadecimal digits.
    mutating func appendHex(_ identifier: Identifier128) {
        appendHex(identifier.high)
        appendHex(identifier.low)
    }
}

/// Lower-case hexadecimal digits.
enum Hex {
    static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") &+ nibble : UInt8(ascii: "a") &+ (nibble &- 10)
    }

    /// The value of a lower-case digit; `nil` for anything else, upper case included.
    static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit &- UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit &- UInt8(ascii: "a") &+ 10
        default: nil
        }
    }
}
