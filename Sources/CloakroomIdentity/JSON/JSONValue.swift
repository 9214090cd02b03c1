import FoundationEssentials

/// Any JSON value (RFC 8259), for documents whose shape is configuration.
///
/// Reading one reads everything in it, so a value that exists was valid from its first byte to its last.
enum JSONValue: Equatable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// Reads a document.
    /// - Returns: `nil` unless it is one JSON value in UTF-8.
    init?(document: [UInt8]) {
        // Foundation would also take UTF-16 and UTF-32, where every other byte of plain text is zero. JSON has no zeros.
        guard !document.contains(0), CompactJSON.make(document) != nil else { return nil }
        guard let value = try? JSONDecoder().decode(JSONValue.self, from: Data(document)) else { return nil }
        self = value
    }

    /// The value at a path of member names joined by dots; `nil` where there is none, or `null`.
    subscript(path path: String) -> JSONValue? {
        var value = self
        for name in path.split(separator: ".", omittingEmptySubsequences: false) {
            guard case .object(let members) = value, let member = members[String(name)] else { return nil }
            value = member
        }
        return value == .null ? nil : value
    }
}

extension JSONValue: Decodable {
    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }
}
