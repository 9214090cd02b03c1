/// The name of a claim of a user, or a JSON Pointer (RFC 6901) to a claim within objects.
///
/// Text that begins with `/` is a pointer: `/realm_access/roles`. Other text is a name, also one with dots and slashes:
/// `https://example.com/roles`. Names are compared by their bytes, and `/groups` is the claim `groups`.
public struct ClaimName: Sendable, Hashable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// The notation in the configuration.
    public let description: String
    /// The names of the members that lead to the claim; at least one.
    package let path: [JSONMemberName]

    /// Parses a name or a pointer.
    /// - Returns: `nil` for a pointer with an empty name, or with `~` elsewhere than in `~0` and `~1`.
    public init?(_ text: String) {
        var path: [JSONMemberName] = []
        if text.utf8.first == UInt8(ascii: "/") {
            for token in text.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
                guard let name = Self.unescaped(token) else { return nil }
                path.append(name)
            }
        }
        description = text
        self.path = path.isEmpty ? [JSONMemberName(text)] : path
    }

    /// A literal that is no valid pointer is a name.
    public init(stringLiteral text: String) {
        description = text
        path = ClaimName(text)?.path ?? [JSONMemberName(text)]
    }

    /// A reference token (RFC 6901 §4); `nil` if it is empty or malformed.
    private static func unescaped(_ token: some Sequence<UInt8>) -> JSONMemberName? {
        var bytes: [UInt8] = []
        var rest = token.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "~") else {
                bytes.append(byte)
                continue
            }
            switch rest.next() {
            case UInt8(ascii: "0")?: bytes.append(UInt8(ascii: "~"))
            case UInt8(ascii: "1")?: bytes.append(UInt8(ascii: "/"))
            default: return nil
            }
        }
        return bytes.isEmpty ? nil : JSONMemberName(String(decoding: bytes, as: UTF8.self))
    }

    /// Whether both are the same claim.
    public static func == (left: Self, right: Self) -> Bool { left.path == right.path }

    /// Hashes the names that lead to the claim.
    public func hash(into hasher: inout Hasher) { hasher.combine(path) }

    /// Whether a session that has this claim may have another one: the same, or one within it.
    package func contains(_ other: ClaimName) -> Bool { other.path.starts(with: path) }
}

extension JSONValue {
    /// A claim among those of a user; `nil` if it is missing or `null`, also if a step leads into a value that is no
    /// object.
    package subscript(claim name: ClaimName) -> JSONValue? { value(at: name.path) }
}
