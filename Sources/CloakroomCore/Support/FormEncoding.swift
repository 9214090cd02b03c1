import CloakroomWire

/// Encodes `application/x-www-form-urlencoded` (RFC 6749 Appendix B, WHATWG URL §5.2).
package enum FormEncoding {
    /// The pairs, joined by `&`.
    package static func encode(_ pairs: [(name: String, value: String)]) -> String {
        pairs.map { encode($0.name) + "=" + encode($0.value) }.joined(separator: "&")
    }

    /// One text: letters, digits and `*-._` as they are, a space as `+`, all other bytes as `%XX`.
    package static func encode(_ text: String) -> String {
        let bytes = Byte.percentEncoded(text) { Byte.isLetterOrDigit($0) || "*-._ ".utf8.contains($0) }
        return String(decoding: bytes.map { $0 == 0x20 ? UInt8(ascii: "+") : $0 }, as: UTF8.self)
    }
}
