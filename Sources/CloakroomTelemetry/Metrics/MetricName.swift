/// Converts names to valid Prometheus names. Libraries may use any metric name; names of the gateway are already valid.
enum MetricName {
    /// A metric name of `[a-zA-Z_:][a-zA-Z0-9_:]*`; every other byte becomes an underscore.
    static func metric(_ raw: String) -> String {
        sanitized(raw, colons: true)
    }

    /// A label name of `[a-zA-Z_][a-zA-Z0-9_]*` that is not reserved by Prometheus (`__…`).
    static func label(_ raw: String) -> String {
        let name = sanitized(raw, colons: false)
        return name.hasPrefix("__") ? "label" + name : name
    }

    /// The name with the suffix of its kind, appended if absent.
    static func metric(_ raw: String, suffix: String) -> String {
        let name = metric(raw)
        return name.hasSuffix(suffix) ? name : name + suffix
    }

    /// The family name for this kind. A counter's always ends in `_total`.
    static func family(_ raw: String, _ kind: MetricKind) -> String {
        guard kind == .counter else { return metric(raw) }
        let name = metric(raw, suffix: totalSuffix)
        return name == totalSuffix ? "_" + name : name
    }

    /// All names that a family reserves: its own and those of its samples. Two families that share one of these names
    /// cannot both be exposed.
    static func reservedNames(_ name: String, _ kind: MetricKind) -> Set<String> {
        kind == .histogram ? [name, name + "_bucket", name + "_count", name + "_sum"] : [name]
    }

    private static let totalSuffix = "_total"

    private static func sanitized(_ raw: String, colons: Bool) -> String {
        let isValid = raw.utf8.allSatisfy { byte in
            switch byte | 0x20 {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): true
            default: byte == UInt8(ascii: "_")
            }
        }
        if isValid, !raw.isEmpty { return raw }
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

/// The labels of a series, rendered once: sorted by name and escaped, so the bytes also identify the
/// series.
struct LabelSet: Sendable {
    /// The exposed names and the unescaped values.
    let pairs: [(name: String, value: String)]
    /// `a="b",c="d"`; empty if there are no labels.
    let bytes: [UInt8]

    /// Sanitizes names. If two labels get the same name, the first one is kept. The name `le` is reserved in
    /// histograms.
    init(_ labels: [(String, String)], kind: MetricKind) {
        var pairs: [(name: String, value: String)] = []
        pairs.reserveCapacity(labels.count)
        for (rawName, value) in labels {
            var name = MetricName.label(rawName)
            if kind == .histogram, name == "le" { name = "le_" }
            if !pairs.contains(where: { $0.name == name }) { pairs.append((name, value)) }
        }
        pairs.sort { $0.name < $1.name }
        self.pairs = pairs
        bytes = Self.rendered(pairs)
    }

    /// Compared by bytes: canonically equivalent strings are different labels in Prometheus.
    static func == (left: LabelSet, right: LabelSet) -> Bool {
        left.bytes == right.bytes
    }

    /// The order of exposition.
    static func < (left: LabelSet, right: LabelSet) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    private static func rendered(_ pairs: [(name: String, value: String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in pairs {
            if !bytes.isEmpty { bytes.append(UInt8(ascii: ",")) }
            bytes.append(contentsOf: name.utf8)
            bytes.append(UInt8(ascii: "="))
            bytes.append(UInt8(ascii: "\""))
            bytes.appendEscaped(value, quotes: true)
            bytes.append(UInt8(ascii: "\""))
        }
        return bytes
    }
}
