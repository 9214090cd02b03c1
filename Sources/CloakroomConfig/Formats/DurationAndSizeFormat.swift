import CloakroomCore

extension ValueFormat where Value == Duration {
    private static var units: [(name: String, milliseconds: Int64)] {
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)]
    }

    /// A duration with units, largest first: `500ms`, `15m`, `1h30m`.
    static func duration(_ range: ClosedRange<Duration>) -> Self {
        within(range, "duration", render: rendered) { text throws(ConfigValueError) in
            .milliseconds(try milliseconds(text))
        }
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

    /// The notation of a number with a unit in words: `15m` for `15 minutes`; `nil` for another text.
    private static func corrected(_ text: String) -> String? {
        guard let match = text.lowercased().wholeMatch(of: /([0-9]+) ?([a-z]+)/) else { return nil }
        let words: [Substring: String] = [
            "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d",
        ]
        let unit = match.2
        let name = units.first { unit == $0.name }?.name ?? words[unit.last == "s" ? unit.dropLast() : unit]
        return name.map { "\(match.1)\($0)" }
    }

    private static func milliseconds(_ text: String) throws(ConfigValueError) -> Int64 {
        let malformed = ConfigValueError(
            "must be a duration, not \(text.quoted)",
            "write \(corrected(text) ?? "a number with ms, s, m, h or d, such as 30s or 1h30m")")
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

/// The notation of a size in bytes, with or without a unit.
enum ByteSize {
    private static let units: [(name: String, bytes: Int)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// The size in the largest unit that divides it.
    static func rendered(_ bytes: Int) -> String {
        for (name, factor) in units where factor > 1 && bytes >= factor && bytes % factor == 0 {
            return "\(bytes / factor)\(name)"
        }
        return String(bytes)
    }

    fileprivate static func bytes(_ text: String) throws(ConfigValueError) -> Int {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        let unit = text[digits.endIndex...].trimmingPrefix(while: { $0 == " " })
        let named = units.first { $0.name.first?.lowercased() == unit.first?.lowercased() }
        let isUsual = named != nil && unit.lowercased().wholeMatch(of: /[kmgt]i?b?/) != nil
        let malformed = ConfigValueError(
            "must be a size, not \(text.quoted)",
            isUsual && !digits.isEmpty
                ? "write \(digits)\(named?.name ?? "")" : "write bytes, or a number with KiB, MiB, GiB or TiB")
        guard let number = Int(digits) else { throw malformed }
        if unit.isEmpty { return number }
        guard let factor = units.first(where: { $0.name == unit })?.bytes else { throw malformed }
        let (product, isTooLarge) = number.multipliedReportingOverflow(by: factor)
        guard !isTooLarge else { throw malformed }
        return product
    }
}

extension ValueFormat where Value == Int {
    /// A size: `16KiB`, `10MiB`, or bytes without a unit.
    static func size(_ range: ClosedRange<Int>) -> Self {
        within(range, "size", render: ByteSize.rendered, parse: ByteSize.bytes)
    }
}
