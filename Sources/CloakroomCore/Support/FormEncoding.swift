/// Encodes `application/x-www-form-urlencoded` (RFC 6749 Appendix B, WHATWG URL §5.2).
package enum FormEncoding {
    /// The pairs, joined by `&`.
    package static func encode(_ pairs: [(name: String, value: String)]) -> String {
        pairs.map { encode($0.name) + "=" + encode($0.value) }.joined(separator: "&")
    }

    /// One text: letters, digits and `*-._` as they are, a space as `+`, all other bytes as `%XX`.
    package static func encode(_ text: String) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                bytes.append(byte)
            case 0x20: bytes.append(UInt8(ascii: "+"))
            default: bytes += percentEncoded(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func percentEncoded(_ byte: UInt8) -> [UInt8] {
        let digits = Array("0123456789ABCDEF".utf8)
        return [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 0xf)]]
    }
}
