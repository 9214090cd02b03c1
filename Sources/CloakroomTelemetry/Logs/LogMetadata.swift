import Logging

/// Merges the metadata of the handler, the metadata provider and the event; later values win.
enum LogMetadata {
    /// The maximum nesting depth; deeper values are cut to bound the line.
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
    /// Appends a metadata value as JSON: objects and arrays are kept, other values become strings.
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
