import CloakroomCore

extension ValueFormat where Value == Duration {
    private static var units: [(name: String, milliseconds: Int64)] {
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
    }

    /// A duration with units, largest first: `500ms`, `15m`, `1h30m`.
    static func duration(_ range: ClosedRange<Duration>) -> Self {
        ValueFormat(
            "duration, \(rendered(range.lowerBound)) to \(rendered(range.upperBound))",
            parse: { text throws(ConfigValueError) in
                let duration = Duration.milliseconds(try milliseconds(text))
                guard range.contains(duration) else {
                    throw ConfigValueError(
                        "must be in the allowed range, not \(text)",
                        "write \(rendered(range.lowerBound)) to \(rendered(range.upperBound))")
                }
                return duration
            }, render: rendered)
    }

    /// The shortest notation of the duration: `8h`, `1m30s`.
    static func rendered(_ duration: Duration) -> String {
        var rest = duration.wholeMilliseconds
        guard rest > 0 else { return "0s" }
        var text = ""
        for (name, milliseconds) in units where rest >= milliseconds {
            text += "\(rest / milliseconds)\(name)"
            rest %= milliseconds
        }
        return text
    }

    private static func milliseconds(_ text: String) throws(ConfigValueError) -> Int64 {
        let malformed = ConfigValueError(
            "must be a duration, not \(DiagnosticText.quoted(text))",
            "write a number with ms, s, m, h or d, such as 30s or 1h30m")
        var rest = text[...]
        var sum: Int64 = 0
        var largest = Int64.max
        repeat {
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            let unit = rest[digits.endIndex...].prefix { $0.isLetter }
            guard !digits.isEmpty else { throw malformed }
            if unit.isEmpty, digits.endIndex == text.endIndex, sum == 0 {
                throw ConfigValueError(
                    "must be a duration with a unit, not \(text)",
                    "write \(text)s, \(text)m or another of ms, s, m, h, d")
            }
            guard let factor = units.first(where: { $0.name == unit })?.milliseconds, factor < largest else {
                throw malformed
            }
            guard let number = Int64(digits) else { throw malformed }
            let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
            let (total, isTooMuch) = sum.addingReportingOverflow(product)
            guard !isTooLarge, !isTooMuch else { throw malformed }
            sum = total
            largest = factor
            rest = rest[unit.endIndex...]
        } while !rest.isEmpty
        return sum
    }
}
