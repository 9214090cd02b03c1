/// How a route changes the path of a request: to a pattern with the names of its own path.
///
/// The result is made of literals and of whole segments of the request's normal form, so that it is a normal form too:
/// nothing is decoded a second time, and neither dot segments nor two slashes in a row can appear.
///
/// A class, so that it costs each route one reference.
public final class PathRewrite: Sendable, Equatable {
    private enum Part: Sendable {
        case literal([UInt8])
        /// The segment after a number of slashes, or all that follows them.
        case segment(after: Int, isRest: Bool)
    }

    /// The pattern of the paths that are made.
    public let pattern: PathPattern
    /// Whether the paths of cookies stay, which otherwise change back as references do.
    package let keepsCookiePaths: Bool
    /// The leading segments that differ between received paths and those that are made, without a slash at the end;
    /// empty for none. `nil` if a segment at another place differs.
    package let prefixes: (received: [UInt8], made: [UInt8])?
    /// What was removed from the beginning of received paths, which an application has to put before its own to make
    /// them reachable: `/a` for `/a/*` that becomes `/*`. Empty if nothing was removed, or something else added.
    package let removedPrefix: [UInt8]
    private let path: PathPattern
    private let parts: [Part]

    /// Creates a rewrite.
    /// - Parameters:
    ///   - path: The pattern of the received paths.
    ///   - pattern: The pattern of the paths to make.
    ///   - keepsCookiePaths: Whether the paths of cookies stay.
    /// - Throws: ``PathPatternError`` if `pattern` has a name or a wildcard that `path` does not have.
    public init(
        from path: PathPattern, to pattern: PathPattern, keepsCookiePaths: Bool = false
    ) throws(PathPatternError) {
        var parts: [Part] = []
        var literal: [UInt8] = []
        for segment in pattern.segments {
            literal.append(UInt8(ascii: "/"))
            guard !segment.isLiteral else {
                literal += Self.text([segment]).dropFirst()
                continue
            }
            guard let index = path.segments.firstIndex(of: segment) else {
                let names = path.segments.filter { !$0.isLiteral }.map(\.name).joined(separator: " or ")
                throw PathPatternError(
                    "must use names of the path: \(segment.name) is not in \(path)"
                        + " (write \(names.isEmpty ? "a literal" : names))")
            }
            parts += [.literal(literal), .segment(after: index + 1, isRest: segment == .wildcard)]
            literal = []
        }
        self.parts = literal.isEmpty ? parts : parts + [.literal(literal)]
        self.path = path
        self.pattern = pattern
        self.keepsCookiePaths = keepsCookiePaths
        var (received, made) = (path.segments[...], pattern.segments[...])
        while let segment = received.last, segment == made.last {
            received.removeLast()
            made.removeLast()
        }
        let areLiteral = received.allSatisfy(\.isLiteral) && made.allSatisfy(\.isLiteral)
        prefixes = areLiteral ? (received: Self.text(received), made: Self.text(made)) : nil
        removedPrefix = areLiteral && Self.text(made).isEmpty ? Self.text(received) : []
    }

    /// The text of segments, without a slash at the end.
    private static func text(_ segments: ArraySlice<PathPattern.Segment>) -> [UInt8] {
        Array(PathPattern(segments: segments.filter { $0 != .literal("") }).description.utf8)
    }

    /// Whether two rewrites make the same paths.
    public static func == (left: PathRewrite, right: PathRewrite) -> Bool {
        left.path == right.path && left.pattern == right.pattern && left.keepsCookiePaths == right.keepsCookiePaths
    }

    /// Appends the path that is made of a received one.
    /// - Parameter path: A path that the pattern of received paths matches, in the normal form of ``RequestTarget``.
    public func append(_ path: Span<UInt8>, to result: inout [UInt8]) {
        for part in parts {
            switch part {
            case .literal(let bytes): result += bytes
            case .segment(let slashes, let isRest):
                let segment = Self.segment(after: slashes, of: path)
                let end = isRest ? path.count : segment.upperBound
                path.extracting(segment.lowerBound..<end).withUnsafeBufferPointer { result += $0 }
            }
        }
    }

    /// The segment of a path after a number of slashes; empty without one.
    package static func segment(after slashes: Int, of path: Span<UInt8>) -> Range<Int> {
        var (start, slashes) = (0, slashes)
        while slashes > 0, start < path.count {
            if path[start] == UInt8(ascii: "/") { slashes -= 1 }
            start += 1
        }
        return start..<FieldScan.first(UInt8(ascii: "/"), in: path, from: start, to: path.count)
    }
}

extension PathPattern.Segment {
    var isLiteral: Bool { if case .literal = self { true } else { false } }

    /// The segment in its textual form.
    fileprivate var name: Substring { PathPattern(segments: [self]).description.dropFirst() }
}
