/// Names as Prometheus allows them. Libraries name their metrics freely; ours are written right to begin with.
enum MetricName {
    /// A metric name of `[a-zA-Z_:][a-zA-Z0-9_:]*`; every other byte becomes an underscore.
    static func metric(_ raw: String) -> String {
        sanitized(raw, colons: true)
    }

    /// A label name of `[a-zA-Z_][a-zA-Z0-9_]*` that is not one of Prometheus' own (`__…`).
    static func label(_ raw: String) -> String {
        let name = sanitized(raw, colons: false)
        return name.hasPrefix("__") ? "label" + name : name
    }

    /// The name with the suffix that its kind calls for, unless it has it.
    static func metric(_ raw: String, suffix: String) -> String {
        let name = metric(raw)
        return name.hasSuffix(suffix) ? name : name + suffix
    }

    /// A name for a family of this kind. A counter's ends in `_total` whatever it was called, because OpenMetrics names
    /// its family without that and its samples with it.
    static func family(_ raw: String, _ kind: MetricKind) -> String {
        guard kind == .counter else { return metric(raw) }
        let name = metric(raw, suffix: totalSuffix)
        return name == totalSuffix ? "_" + name : name
    }

    /// What OpenMetrics calls the family: a counter's name lacks `_total`.
    static func openMetricsFamily(_ name: String, _ kind: MetricKind) -> String {
        kind == .counter ? String(name.dropLast(totalSuffix.count)) : name
    }

    /// Every name that a family takes for itself: its own in either format, and those of its samples. `_created` is
    /// among them because OpenMetrics reserves it. Two families that share one of these cannot both be exposed.
    static func reservedNames(_ name: String, _ kind: MetricKind) -> Set<String> {
        let family = openMetricsFamily(name, kind)
        return switch kind {
        case .counter: [family, name, family + "_created"]
        case .gauge: [name]
        case .histogram: [name, name + "_bucket", name + "_count", name + "_sum", name + "_created"]
        }
    }

    /// The unit that a name ends in, where it is one that OpenMetrics' `UNIT` line should name.
    static func unit(of family: String) -> String? {
        ["seconds", "bytes"].first { family.hasSuffix("_" + $0) }
    }

    private static let totalSuffix = "_total"

    private static func sanitized(_ raw: String, colons: Bool) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(raw.utf8.count + 1)
        for byte in raw.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"):
                bytes.append(byte)
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if bytes.isEmpty { bytes.append(UInt8(ascii: "_")) }
                bytes.append(byte)
            case UInt8(ascii: ":") where colons:
                bytes.append(byte)
            default:
                bytes.append(UInt8(ascii: "_"))
            }
        }
        return bytes.isEmpty ? "_" : String(decoding: bytes, as: UTF8.self)
    }
}
