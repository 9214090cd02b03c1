/// Comma-separated `name=value` pairs with percent-encoded values: the notation of OpenTelemetry variables for headers
/// and resource attributes (W3C Baggage without properties).
enum KeyValueList {
    /// Parses the pairs in order. Empty items are ignored.
    /// - Parameter areNamesEncoded: Whether names are percent-encoded too, as those of resource attributes may be.
    /// - Throws: ``Mistake`` if an item is not a pair or cannot be decoded. The message does not repeat the text, which
    ///   may contain a secret.
    static func parse(_ text: String, areNamesEncoded: Bool) throws(ConfigValueError) -> [(name: String, value: String)]
    {
        var pairs: [(name: String, value: String)] = []
        for (index, item) in text.split(separator: ",", omittingEmptySubsequences: false).enumerated() {
            guard !item.allSatisfy(\.isWhitespace) else { continue }
            guard let equals = item.firstIndex(of: "=") else {
                throw ConfigValueError("item \(index + 1) must be name=value", "write name=value, name=value")
            }
            let name = trimmed(item[..<equals])
            guard let value = decoded(trimmed(item[item.index(after: equals)...])),
                let plainName = areNamesEncoded ? decoded(name) : name
            else {
                throw ConfigValueError(
                    "item \(index + 1) must be percent-encoded",
                    "write %25 for a percent sign, %2C for a comma and %20 for a blank, all in UTF-8")
            }
            pairs.append((plainName, value))
        }
        return pairs
    }

    /// The text without leading and trailing spaces and tabs.
    static func trimmed(_ text: Substring) -> String {
        let start = text.trimmingPrefix(while: \.isWhitespace)
        let count = start.reversed().prefix(while: \.isWhitespace).count
        return String(start.dropLast(count))
    }

    /// Decodes percent-encoding; `nil` if a `%` is not followed by two hexadecimal digits or the result is not UTF-8.
    private static func decoded(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, let hex = String(validating: digits, as: UTF8.self), hex.allSatisfy(\.isHexDigit),
                let value = UInt8(hex, radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
