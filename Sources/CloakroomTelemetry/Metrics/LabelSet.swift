/// The labels of a series, rendered once: sorted by name and escaped, so that the text is also the series' identity.
struct LabelSet: Hashable, Sendable {
    /// `a="b",c="d"`, empty when there are none.
    let text: String

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
        text = pairs.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",")
    }

    private static func escaped(_ value: String) -> String {
        var result = ""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
