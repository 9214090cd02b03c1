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
