/// Prometheus' text exposition format, version 0.0.4.
enum PrometheusTextFormat {
    static func render(_ families: [FamilySnapshot]) -> [UInt8] {
        var text = ""
        for family in families {
            text += "# HELP \(family.name) \(escapedHelp(family.help))\n"
            text += "# TYPE \(family.name) \(family.kind.rawValue)\n"
            for series in family.series {
                write(series, of: family.name, to: &text)
            }
        }
        return Array(text.utf8)
    }

    private static func write(_ series: SeriesSnapshot, of name: String, to text: inout String) {
        switch series.value {
        case .whole(let value):
            line(name, series.labels, String(value), &text)
        case .fraction(let value):
            line(name, series.labels, number(value), &text)
        case .histogram(let histogram):
            let separator = series.labels.isEmpty ? "" : ","
            for (index, count) in histogram.cumulative.enumerated() {
                let bound = index < histogram.boundTexts.count ? histogram.boundTexts[index] : "+Inf"
                line(name + "_bucket", "\(series.labels)\(separator)le=\"\(bound)\"", String(count), &text)
            }
            line(name + "_sum", series.labels, number(histogram.sum), &text)
            line(name + "_count", series.labels, String(histogram.count), &text)
        }
    }

    private static func line(_ name: String, _ labels: String, _ value: String, _ text: inout String) {
        text += name
        if !labels.isEmpty { text += "{\(labels)}" }
        text += " \(value)\n"
    }

    private static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return value.description
    }

    private static func escapedHelp(_ help: String) -> String {
        var result = ""
        for scalar in help.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
