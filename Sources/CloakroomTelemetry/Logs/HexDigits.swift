/// Hexadecimal digits, eight at a time. Ids are written several times per request; writing single digits took 5 % of
/// its instructions.
public enum HexDigits {
    /// The eight lower-case digits of a number, the first one in the most significant byte.
    @inlinable
    public static func eight(_ value: UInt32) -> UInt64 {
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
