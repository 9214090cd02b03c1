/// Bytes of a JSON line in the making. Everything is appended by hand: no intermediate `String`, no encoder.
///
/// The room is made in one piece and filled by copying, which is half the work of appending to an array each time; the
/// access log appends some forty times per request.
struct LineBuffer {
    private var storage: [UInt8]
    private(set) var count = 0

    init(reserving capacity: Int = 256) {
        storage = Array(repeating: 0, count: capacity)
    }

    /// The bytes so far.
    var bytes: [UInt8] { Array(storage[..<count]) }

    /// The bytes so far, as text.
    var text: String { String(decoding: storage[..<count], as: UTF8.self) }

    /// Gives the bytes away and starts anew.
    mutating func take() -> [UInt8] {
        defer { count = 0 }
        return bytes
    }

    mutating func append(byte: UInt8) {
        makeRoom(1)
        storage[count] = byte
        count += 1
    }

    mutating func append(_ other: [UInt8]) {
        other.withUnsafeBufferPointer { append($0) }
    }

    /// The bytes are copied as one block; the pointer is the caller's and does not stay.
    mutating func append(_ other: UnsafeBufferPointer<UInt8>) {
        append(UnsafeRawBufferPointer(other))
    }

    private mutating func append(_ other: UnsafeRawBufferPointer) {
        makeRoom(other.count)
        let start = count
        storage.withUnsafeMutableBytes { room in
            UnsafeMutableRawBufferPointer(rebasing: room[start..<(start + other.count)]).copyMemory(from: other)
        }
        count += other.count
    }

    @inline(__always)
    private mutating func makeRoom(_ needed: Int) {
        if count + needed > storage.count {
            storage.append(contentsOf: repeatElement(0, count: max(needed, storage.count)))
        }
    }

    /// Text that needs no escaping.
    mutating func append(_ text: StaticString) {
        // The constant's own memory is copied as one block; there is no other way to read a StaticString.
        text.withUTF8Buffer { append($0) }
    }

    /// Text that needs no escaping.
    mutating func append(plain text: String) {
        append(Array(text.utf8))
    }

    mutating func append(decimal value: UInt64) {
        var digits = 1
        var rest = value
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        append(value, digits: digits)
    }

    /// The last `digits` digits of a number, from the last one to the first: dividing by a constant is a multiplication.
    private mutating func append(_ value: UInt64, digits: Int) {
        makeRoom(digits)
        var rest = value
        var index = count + digits
        while index > count {
            index -= 1
            storage[index] = UInt8(truncatingIfNeeded: rest % 10) &+ UInt8(ascii: "0")
            rest /= 10
        }
        count += digits
    }

    mutating func append(decimal value: Int64) {
        if value < 0 { append(byte: UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// A number padded with zeros, for dates: `digits` of them.
    mutating func append(padded value: Int, digits: Int) {
        append(UInt64(truncatingIfNeeded: value), digits: digits)
    }

    /// A duration as milliseconds with three decimals.
    mutating func append(milliseconds nanoseconds: UInt64) {
        append(decimal: nanoseconds / 1_000_000)
        append(byte: UInt8(ascii: "."))
        append(padded: Int(nanoseconds / 1_000 % 1_000), digits: 3)
    }

    /// Sixteen lower-case hexadecimal digits.
    mutating func appendHex(_ value: UInt64) {
        for half in [UInt32(truncatingIfNeeded: value >> 32), UInt32(truncatingIfNeeded: value)] {
            // Eight digits at a time; the pointer does not leave the closure.
            withUnsafeBytes(of: HexDigits.eight(half).bigEndian) { append($0) }
        }
    }

    /// Thirty-two lower-case hexadecimal digits.
    mutating func appendHex(_ identifier: Identifier128) {
        appendHex(identifier.high)
        appendHex(identifier.low)
    }
}

/// Hexadecimal digits, eight at a time: ids are written several times per request, and digit by digit they were 5 % of
/// its instructions.
public enum HexDigits {
    /// The eight lower-case digits of a number, the first one in the most significant byte.
    @inlinable
    public static func eight(_ value: UInt32) -> UInt64 {
        // Spread the nibbles, each into a byte of its own.
        var digits = UInt64(value)
        digits = (digits & 0x0000_ffff) | (digits & 0xffff_0000) << 16
        digits = (digits & 0x0000_00ff_0000_00ff) | (digits & 0x0000_ff00_0000_ff00) << 8
        digits = (digits & 0x000f_000f_000f_000f) | (digits & 0x00f0_00f0_00f0_00f0) << 4
        // 1 in each byte that is a letter: it lies 39 characters behind where a digit would.
        let letters = (digits &+ 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101
        return digits &+ 0x3030_3030_3030_3030 &+ letters &* 39
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
