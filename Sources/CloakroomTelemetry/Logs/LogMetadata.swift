import Logging

/// Puts together what a log line carries: the handler's own metadata, then the provider's, then the event's; the later
/// wins.
enum LogMetadata {
    /// Nesting deeper than this is cut, so that no value can make a line without end.
    static let depthLimit = 16

    static func merged(
        _ handler: Logger.Metadata, _ provider: Logger.MetadataProvider?, _ event: Logger.Metadata?
    ) -> [(key: String, value: Logger.MetadataValue)] {
        var merged = handler
        if let provided = provider?.get() { merged.merge(provided) { $1 } }
        if let event { merged.merge(event) { $1 } }
        return merged.sorted { $0.key < $1.key }
    }
}

extension LineBuffer {
    /// A metadata value as JSON: objects and arrays stay what they are, everything else is a string.
    mutating func append(_ value: Logger.MetadataValue, depth: Int = 0) {
        guard depth < LogMetadata.depthLimit else { return append("\"…\"") }
        switch value {
        case .string(let text):
            append(json: text)
        case .stringConvertible(let value):
            append(json: value.description)
        case .array(let values):
            append("[")
            for (index, value) in values.enumerated() {
                if index > 0 { append(",") }
                append(value, depth: depth + 1)
            }
            append("]")
        case .dictionary(let values):
            append("{")
            for (index, entry) in values.sorted(by: { $0.key < $1.key }).enumerated() {
                if index > 0 { append(",") }
                append(json: entry.key)
                append(":")
                append(entry.value, depth: depth + 1)
            }
            append("}")
        }
    }
}
