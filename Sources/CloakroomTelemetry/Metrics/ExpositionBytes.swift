/// Byte-writing helpers of both formats. Numbers are written without an intermediate string.
extension [UInt8] {
    /// Appends an unsigned number in decimal.
    mutating func append(decimal value: UInt64) {
        guard value > 9 else { return append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value)) }
        // Digits are produced from the right; 20 of them hold any 64-bit number.
        var digits = InlineArray<20, UInt8>(repeating: 0)
        var (rest, first) = (value, digits.count)
        while rest > 0 {
            first -= 1
            digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        for index in first..<digits.count { append(digits[index]) }
    }

    /// Appends a signed number in decimal.
    mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// Appends the shortest text that parses to the same number, or Prometheus' notation of NaN and infinity.
    mutating func append(number value: Double) {
        if value.isNaN { return append(contentsOf: "NaN".utf8) }
        if value.isInfinite { return append(contentsOf: (value > 0 ? "+Inf" : "-Inf").utf8) }
        append(contentsOf: value.description.utf8)
    }

    /// Appends text with `\` and newline escaped, and `"` in label values.
    mutating func appendEscaped(_ text: String, quotes: Bool) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\\"):
                append(UInt8(ascii: "\\"))
                append(byte)
            case UInt8(ascii: "\"") where quotes:
                append(UInt8(ascii: "\\"))
                append(byte)
            case UInt8(ascii: "\n"):
                append(UInt8(ascii: "\\"))
                append(UInt8(ascii: "n"))
            default:
                append(byte)
            }
        }
    }
}
