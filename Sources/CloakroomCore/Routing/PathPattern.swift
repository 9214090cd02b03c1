import CloakroomWire

/// The paths that a route matches: `/episodes`, `/videos/{id}`, `/files/*`.
///
/// A segment is a literal, a parameter in braces that matches any single non-empty segment, or, at the end only, `*`,
/// which matches the remaining path after the preceding slash, even if empty: `/*` matches every path, `/a/*` matches
/// `/a/` and all paths below it. A trailing slash is a segment of its own: `/a/` and `/a` are different paths, and
/// `/a/*` does not match `/a`.
public struct PathPattern: Sendable, Hashable, CustomStringConvertible {
    /// One segment of a pattern.
    public enum Segment: Sendable, Hashable {
        /// Exactly these bytes, in the normal form of ``RequestTarget``.
        case literal(String)
        /// Any single non-empty segment. The name is for documentation only.
        case parameter(String)
        /// The remaining path, even if empty. Only at the end.
        case wildcard
    }

    /// The segments, from the left. `/` is one empty literal.
    public let segments: [Segment]

    /// Creates a pattern of segments that are known to be valid.
    package init(segments: [Segment]) {
        self.segments = segments
    }

    /// The pattern without its wildcard and the slash before it: `/a` for `/a/*`, which `/a/*` itself does not match.
    /// `nil` without a wildcard, and for `/*`.
    package var base: PathPattern? {
        guard segments.count > 1, segments.last == .wildcard else { return nil }
        return PathPattern(segments: segments.dropLast())
    }

    /// The pattern in its textual form.
    public var description: String {
        segments.map { segment in
            switch segment {
            case .literal(let text): "/" + text
            case .parameter(let name): "/{" + name + "}"
            case .wildcard: "/*"
            }
        }.joined()
    }
}

/// Why a text is not a valid path pattern.
public struct PathPatternError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The problem and a suggestion.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

extension PathPattern {
    /// Parses a pattern.
    /// - Throws: ``PathPatternError`` with the problem and a suggestion.
    public init(_ text: String) throws(PathPatternError) {
        guard text.utf8.first == UInt8(ascii: "/") else {
            throw PathPatternError(Self.withoutSlash(text))
        }
        if let end = text.firstIndex(where: { $0 == "?" || $0 == "#" }),
            text[..<end].last(where: { $0 == "{" || $0 == "}" }) != "{"
        {
            let what = text[end] == "?" ? "query" : "fragment"
            throw PathPatternError("a \(what) is not part of a path (write \"\(text[..<end])\")")
        }
        var segments: [Segment] = []
        var names: Set<String> = []
        let parts = Substring(text.utf8.dropFirst()).split(separator: "/", omittingEmptySubsequences: false)
        for (index, part) in parts.enumerated() {
            let isLast = index == parts.count - 1
            if part == "*" || part == "{*}" || part == "**" {
                guard isLast, part == "*" else {
                    let before = parts[..<index].map { "/\($0)" }.joined()
                    throw PathPatternError("a wildcard is a single * as the last segment (write \"\(before)/*\")")
                }
                segments.append(.wildcard)
            } else if part.contains("{") || part.contains("}") {
                let name = part.dropFirst().dropLast()
                guard part.first == "{", part.last == "}", part.count > 2,
                    name.utf8.allSatisfy({ Self.isNameByte($0) })
                else {
                    throw PathPatternError(
                        "\"\(part)\" is not a parameter: a parameter is a whole segment (write \"/videos/{id}\")")
                }
                guard names.insert(String(name)).inserted else {
                    throw PathPatternError("the parameter {\(name)} is used twice (give each its own name)")
                }
                segments.append(.parameter(String(name)))
            } else {
                guard !part.isEmpty || isLast else {
                    throw PathPatternError("an empty segment can never match (write a single slash)")
                }
                segments.append(.literal(try Self.literal(part)))
            }
        }
        self.init(segments: segments)
    }

    /// The error for a text that does not begin with a slash. Of a URL only the path is repeated: the rest may contain a
    /// password.
    private static func withoutSlash(_ text: String) -> String {
        if let end = text.firstRange(of: "://")?.upperBound {
            let path = text[end...].drop { $0 != "/" }.prefix { $0 != "?" && $0 != "#" }
            return "a path has no scheme and no host (write \"\(path.isEmpty ? "/" : path)\")"
        }
        let words = text.split(whereSeparator: \.isWhitespace)
        if words.count == 2, words[1].hasPrefix("/"), words[0].utf8.allSatisfy({ isNameByte($0) }) {
            return "a path has no method (write \"\(words[1])\", and \(words[0].uppercased()) under method or methods)"
        }
        let path = text.trimmingPrefix(while: \.isWhitespace)
        guard !path.contains(where: { $0 == "^" || $0 == "$" || $0.isWhitespace }) else {
            return "a path starts with a slash, and is no regular expression"
                + " (write such as \"/videos/{id}\" or \"/videos/*\")"
        }
        return "a path starts with a slash (write \"\(path.hasPrefix("/") ? "" : "/")\(path)\")"
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        Byte.isLetterOrDigit(byte) || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-")
    }

    /// Validates a literal: it must be a possible segment of a normalized target, or it would never match.
    private static func literal(_ part: Substring) throws(PathPatternError) -> String {
        guard part != ".", part != ".." else {
            throw PathPatternError("\"\(part)\" can never match (remove dot segments)")
        }
        guard part.first != ":" else {
            let name = part.dropFirst()
            let isName = !name.isEmpty && name.utf8.allSatisfy(Self.isNameByte)
            throw PathPatternError(
                "\"\(part)\" begins with a colon, which does not define a parameter (write \"{\(isName ? String(name) : "id")}\")"
            )
        }
        guard !part.contains("+") else {
            throw PathPatternError(
                "\"\(part)\" contains a plus, which clients also write as %2B (use a parameter for this segment)")
        }
        guard !part.utf8.contains(UInt8(ascii: " ")) else {
            throw PathPatternError(
                "\"\(part)\" contains a blank, which clients write as %20 (remove it, or use a parameter for this segment)"
            )
        }
        if let start = part.firstIndex(of: "%") {
            let escape = part[start...].prefix(3)
            let byte = UInt8(escape.dropFirst(), radix: 16) ?? 0
            let isDecoded = PathByte.isAllowed(byte) && byte != UInt8(ascii: "*") && byte != UInt8(ascii: "+")
            throw PathPatternError(
                isDecoded
                    ? "\"\(escape)\" never occurs: paths are compared decoded (write \"\(Unicode.Scalar(byte))\")"
                    : "\"\(escape)\" is not possible in a literal segment (use a parameter for this segment)")
        }
        for byte in part.utf8 {
            guard PathByte.isAllowed(byte), byte != UInt8(ascii: "*") else {
                throw PathPatternError(
                    "\"\(part)\" contains a character that is not allowed in a literal segment (use letters, digits and -._~!$&'(),=:@)"
                )
            }
        }
        return String(part)
    }
}
