/// A size in bytes, written with or without a unit.
enum ByteSize {
    private static let units: [(name: String, bytes: Int)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// A size: `16KiB`, `10MiB`, or bytes without a unit.
    static func size(_ range: ClosedRange<Int>) -> ValueFormat<Int> {
        ValueFormat(
            "size, \(rendered(range.lowerBound)) to \(rendered(range.upperBound))",
            parse: { text throws(ConfigValueError) in
                let bytes = try bytes(text)
                guard range.contains(bytes) else {
                    throw ConfigValueError(
                        "must be in the allowed range, not \(text)",
                        "write \(rendered(range.lowerBound)) to \(rendered(range.upperBound))")
                }
                return bytes
            }, render: rendered)
    }

    /// The size in the largest unit that divides it.
    static func rendered(_ bytes: Int) -> String {
        for (name, factor) in units where factor > 1 && bytes >= factor && bytes % factor == 0 {
            return "\(bytes / factor)\(name)"
        }
        return String(bytes)
    }

    private static func bytes(_ text: String) throws(ConfigValueError) -> Int {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...].trimmingPrefix(while: { $0 == " " })
        let malformed = ConfigValueError(
            "must be a size, not \(DiagnosticText.quoted(text))", "write bytes, or a number with KiB, MiB, GiB or TiB")
        guard let number = Int(digits) else { throw malformed }
        if unit.isEmpty { return number }
        guard let factor = units.first(where: { $0.name == unit })?.bytes else { throw malformed }
        let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLarge else { throw malformed }
        return product
    }
}
