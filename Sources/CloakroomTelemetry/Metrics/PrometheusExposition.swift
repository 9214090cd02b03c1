/// The body of one scrape response, in Prometheus' text format 0.0.4.
struct PrometheusExposition {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    private var bytes: [UInt8] = []

    /// Renders sorted families.
    static func render(_ families: [MetricFamily]) -> [UInt8] {
        var exposition = PrometheusExposition()
        exposition.bytes.reserveCapacity(families.reduce(64) { $0 + size(of: $1) })
        for family in families where !family.series.isEmpty { exposition.append(family) }
        return exposition.bytes
    }

    private mutating func append(_ family: MetricFamily) {
        appendHead(of: family)
        switch family.kind {
        case .counter, .gauge: appendNumbers(of: family)
        case .histogram: appendHistograms(of: family)
        }
    }

    private mutating func appendHead(of family: MetricFamily) {
        append("# HELP \(family.name) ")
        bytes.appendEscaped(family.help, quotes: false)
        append("\n# TYPE \(family.name) \(family.kind.rawValue)\n")
    }

    private mutating func appendNumbers(of family: MetricFamily) {
        let name = Array(family.name.utf8)
        for series in family.series {
            appendStart(name, series.labels.bytes)
            switch series.handle {
            case .counter(let handle): bytes.append(decimal: handle.exposed)
            case .floatingPointCounter(let handle): bytes.append(number: handle.value)
            case .gauge(let handle): bytes.append(decimal: handle.value)
            case .floatingPointGauge(let handle): bytes.append(number: handle.value)
            case .histogram: break
            }
            bytes.append(UInt8(ascii: "\n"))
        }
    }

    private mutating func appendHistograms(of family: MetricFamily) {
        let bucket = Array("\(family.name)_bucket{".utf8)
        let (sum, count) = (Array("\(family.name)_sum".utf8), Array("\(family.name)_count".utf8))
        for series in family.series {
            guard case .histogram(let handle) = series.handle else { continue }
            let labels = series.labels.bytes
            let cumulative = handle.cumulative()
            let endings = handle.buckets.endings
            for (slot, ending) in endings.enumerated() {
                bytes.append(contentsOf: bucket)
                if !labels.isEmpty {
                    bytes.append(contentsOf: labels)
                    bytes.append(UInt8(ascii: ","))
                }
                bytes.append(contentsOf: ending)
                bytes.append(decimal: cumulative[slot])
                bytes.append(UInt8(ascii: "\n"))
            }
            appendStart(sum, labels)
            bytes.append(number: handle.sum)
            bytes.append(UInt8(ascii: "\n"))
            appendStart(count, labels)
            bytes.append(decimal: cumulative[endings.count - 1])
            bytes.append(UInt8(ascii: "\n"))
        }
    }

    /// Writes a line up to its number.
    private mutating func appendStart(_ name: [UInt8], _ labels: [UInt8]) {
        bytes.append(contentsOf: name)
        if !labels.isEmpty {
            bytes.append(UInt8(ascii: "{"))
            bytes.append(contentsOf: labels)
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: " "))
    }

    private mutating func append(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    /// The estimated size of a family in bytes. The whole buffer is reserved at once, because growing to tens of
    /// megabytes by doubling would copy it several times.
    private static func size(of family: MetricFamily) -> Int {
        let head = 3 * family.name.utf8.count + family.help.utf8.count + 64
        return family.series.reduce(head) { total, series in
            var lines = 1
            if case .histogram(let handle) = series.handle { lines = handle.buckets.bounds.count + 3 }
            return total + lines * (family.name.utf8.count + series.labels.bytes.count + 36)
        }
    }
}

/// Byte-writing helpers. Numbers are written without an intermediate string.
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
