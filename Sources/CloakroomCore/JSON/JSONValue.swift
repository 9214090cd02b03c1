/// Any JSON value (RFC 8259), for documents whose shape is configurable.
///
/// A value exists only if the whole document is valid, from its first byte to its last.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    /// Infinite if it is too large, or if it has a fraction and its nearest `Double` has none.
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([JSONMemberName: JSONValue])

    /// Parses a document in one pass. The cost is linear in the number of bytes for every input.
    /// - Returns: `nil` unless the document is one JSON value in UTF-8, nested at most ``JSONParser/maxDepth`` deep,
    ///   without duplicate member names in an object.
    package init?(document: [UInt8]) {
        guard let value = JSONParser.parse(document) else { return nil }
        self = value
    }

    /// The text of a string; `nil` for another value.
    package var string: String? { if case .string(let text) = self { text } else { nil } }

    /// The value at a path of member names joined by dots; `nil` if it is missing or `null`.
    package subscript(path path: String) -> JSONValue? {
        // Most paths are one name.
        guard path.utf8.contains(UInt8(ascii: ".")) else { return value(at: CollectionOfOne(JSONMemberName(path))) }
        let names = path.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return value(at: names.lazy.map { JSONMemberName(String(Substring($0))) })
    }

    /// The value that members of objects lead to; `nil` if it is missing or `null`.
    func value(at path: some Sequence<JSONMemberName>) -> JSONValue? {
        var value = self
        for name in path {
            guard case .object(let members) = value, let member = members[name] else { return nil }
            value = member
        }
        return value == .null ? nil : value
    }

    /// Whether any string of the document satisfies a predicate: values and member names, decoded, at every depth.
    package func containsString(where predicate: (String) -> Bool) -> Bool {
        switch self {
        case .null, .bool, .number: false
        case .string(let text): predicate(text)
        case .array(let items): items.contains { $0.containsString(where: predicate) }
        case .object(let members):
            members.contains { predicate($0.key.text) || $0.value.containsString(where: predicate) }
        }
    }
}

/// The name of a member, compared and hashed by its bytes.
///
/// `String` compares and hashes in a normalization form. It treats two names as equal that other parsers distinguish,
/// and its cost is not linear in the length of a name of combining marks.
package struct JSONMemberName: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The decoded name.
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package init(stringLiteral text: String) {
        self.text = text
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.text.utf8.count == right.text.utf8.count && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        let isHashed: Void? = text.utf8.withContiguousStorageIfAvailable {
            hasher.combine(bytes: UnsafeRawBufferPointer($0))
        }
        if isHashed == nil { for byte in text.utf8 { hasher.combine(byte) } }
    }
}
