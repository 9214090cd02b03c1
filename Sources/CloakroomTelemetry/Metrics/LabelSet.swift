/// The labels of a series, rendered once: sorted by name and escaped, so the bytes also identify the series. Both
/// formats use the same escaping.
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
