/// Base64url without padding (RFC 7515 §2), in its one canonical form.
///
/// Each byte string has exactly one accepted spelling: no padding, no line breaks, no letters of the other alphabet, and
/// unused bits of the last character are zero (RFC 4648 §3.5). The same token can therefore not be sent in two forms.
package enum Base64URL {
    /// Decodes a text in time linear in its length.
    /// - Returns: `nil` for a text that ``encode(_:)`` does not produce.
    package static func decode(_ text: some Collection<UInt8>) -> [UInt8]? {
        let count = text.count
        guard count % 4 != 1 else { return nil }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(count / 4 * 3 + 2)
        var bits: UInt32 = 0
        var bitCount = 0
        for byte in text {
            guard let value = value(byte) else { return nil }
            bits = (bits << 6 | UInt32(value)) & 0x3fff
            bitCount += 6
            if bitCount >= 8 {
                bitCount -= 8
                decoded.append(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)))
            }
        }
        let unused = bits & (1 << UInt32(bitCount) - 1)
        return unused == 0 ? decoded : nil
    }

    /// Encodes bytes in time linear in their number.
    package static func encode(_ bytes: some Collection<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count / 3 * 4 + 3)
        var bits: UInt32 = 0
        var bitCount = 0
        for byte in bytes {
            bits = (bits << 8 | UInt32(byte)) & 0x3fff
            bitCount += 8
            while bitCount >= 6 {
                bitCount -= 6
                text.append(letter(UInt8(truncatingIfNeeded: bits >> UInt32(bitCount)) & 0x3f))
            }
        }
        if bitCount > 0 { text.append(letter(UInt8(truncatingIfNeeded: bits << UInt32(6 - bitCount)) & 0x3f)) }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: `nil` for a byte outside of the alphabet.
    static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }

    /// - Parameter value: 0...63.
    private static func letter(_ value: UInt8) -> UInt8 {
        switch value {
        case 0..<26: UInt8(ascii: "A") + value
        case 26..<52: UInt8(ascii: "a") + value - 26
        case 52..<62: UInt8(ascii: "0") + value - 52
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }
}
