/// The labels of a series, rendered once: sorted by name and escaped, so that the bytes are also the series' identity.
/// Both formats escape label values alike.
struct LabelSet: Sendable {
    /// Names as they are exposed, and values as they were given.
    let pairs: [(name: String, value: String)]
    /// `a="b",c="d"`, empty when there are none.
    let bytes: [UInt8]

    /// Names are sanitised; of two labels that end up with one name the first stays. A histogram owns the name `le`.
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

    /// By bytes: two texts that Unicode calls equal are two labels to Prometheus.
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
