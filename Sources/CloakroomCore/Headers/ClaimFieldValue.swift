import CloakroomWire

/// The value of a header field that contains a claim.
///
/// Bytes other than visible ASCII, and `%`, are percent-encoded in upper case, so that every claim has exactly one value
/// and a claim cannot end a field or a line. Booleans and whole numbers below 2^53 are written as in JSON.
package enum ClaimFieldValue {
    /// The result of writing a claim.
    package enum Result: Sendable, Equatable {
        /// The claim is absent, `null`, or an empty list: there is no field.
        case absent
        case value(String)
        /// The claim is an object, a list in a list, a list without a configured separator, or a number that is not
        /// exact: the sign-in fails.
        case unsupported
    }

    /// Writes a claim.
    /// - Parameters:
    ///   - claim: The claim; `nil` if the user has none.
    ///   - separator: The character between the items of a list: visible ASCII other than `%`. Within items, and in a
    ///     claim that is no list, it is percent-encoded. `nil` if lists are not supported.
    package static func of(_ claim: JSONValue?, separator: UInt8? = nil) -> Result {
        guard let claim, claim != .null else { return .absent }
        guard case .array(let items) = claim else {
            return text(claim).map { .value(encoded($0, except: separator)) } ?? .unsupported
        }
        guard let separator else { return .unsupported }
        guard !items.isEmpty else { return .absent }
        var parts: [String] = []
        for item in items {
            guard let text = text(item) else { return .unsupported }
            parts.append(encoded(text, except: separator))
        }
        return .value(parts.joined(separator: String(Unicode.Scalar(separator))))
    }

    private static func text(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): text
        case .bool(let flag): flag ? "true" : "false"
        case .number(let number): JSONValue.exactText(of: number)
        case .null, .array, .object: nil
        }
    }

    private static func encoded(_ text: String, except separator: UInt8?) -> String {
        let bytes = Byte.percentEncoded(text) {
            (0x21...0x7e).contains($0) && $0 != UInt8(ascii: "%") && $0 != separator
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension JSONValue {
    /// A whole number below 2^53 in magnitude, in decimal digits.
    /// - Returns: `nil` for any other: documents that state different numbers may have the same value (RFC 8259 §6), so
    ///   that one user would be another.
    package static func exactText(of number: Double) -> String? {
        guard let whole = Int64(exactly: number), whole.magnitude < 1 << 53 else { return nil }
        return String(whole)
    }
}
