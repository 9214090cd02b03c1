/// What both formats are written with. Numbers go straight into the bytes; no text is made of them on the way.
extension [UInt8] {
    /// In decimal.
    mutating func append(decimal value: UInt64) {
        guard value > 9 else { return append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value)) }
        // Digits come from the right; 20 of them hold any 64-bit number.
        var digits = InlineArray<20, UInt8>(repeating: 0)
        var (rest, first) = (value, digits.count)
        while rest > 0 {
            first -= 1
            digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        for index in first..<digits.count { append(digits[index]) }
    }

    /// In decimal, with a sign where it is negative.
    mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// The shortest text that reads back as the same number, or what Prometheus writes where it is none.
    mutating func append(number value: Double) {
        if value.isNaN { return append(contentsOf: "NaN".utf8) }
        if value.isInfinite { return append(contentsOf: (value > 0 ? "+Inf" : "-Inf").utf8) }
        append(contentsOf: value.description.utf8)
    }

    /// With `\` and newline escaped, and `"` where it means something.
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
