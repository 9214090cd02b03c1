/// How the path of a request becomes another one: a pattern with the names of the route's path.
///
/// The result is made of literals and of whole segments of the request's normal form, so that it is a normal form too:
/// nothing is decoded a second time, and neither dot segments nor two slashes in a row can appear.
public struct PathRewrite: Sendable, Equatable {
    private enum Part: Sendable, Equatable {
        case literal([UInt8])
        /// The segment after this number of slashes that follow a number of known bytes.
        case segment(offset: Int, slashes: Int)
        /// The same, and all that follows.
        case rest(offset: Int, slashes: Int)
    }

    /// The pattern of the paths that are made.
    public let pattern: PathPattern
    /// Whether the paths of cookies change back too, besides references.
    public var rewritesCookiePaths = true
    /// What is made of the leading segments of a path; `nil` if a segment at another place changes.
    package let prefixes: Prefixes?
    private let parts: [Part]

    /// What differs between the paths that are received and those that are made; the segments after it are the same.
    package struct Prefixes: Sendable, Equatable {
        /// The leading segments of received paths, without a slash at the end; empty for none.
        let received: [UInt8]
        /// The same of those that are made.
        let made: [UInt8]
    }

    /// Creates a rewrite.
    /// - Parameters:
    ///   - path: The pattern of the received paths.
    ///   - pattern: The pattern of the paths to make.
    /// - Throws: ``PathRewriteError`` if `pattern` uses what `path` does not have.
    public init(from path: PathPattern, to pattern: PathPattern) throws(PathRewriteError) {
        let literals = path.segments.prefix { if case .literal = $0 { true } else { false } }
        // A slash before each literal, and one before the segment that follows.
        let offset = Self.text(of: literals).count + 1
        var parts: [Part] = []
        var text: [UInt8] = []
        for segment in pattern.segments {
            text.append(UInt8(ascii: "/"))
            guard case .literal(let literal) = segment else {
                guard let index = path.segments.firstIndex(of: segment) else {
                    if case .parameter(let name) = segment { throw .unknownName(name) }
                    throw .wildcard
                }
                parts.append(.literal(text))
                text = []
                let slashes = index - literals.count
                parts.append(
                    segment == .wildcard
                        ? .rest(offset: offset, slashes: slashes) : .segment(offset: offset, slashes: slashes))
                continue
            }
            text += Array(literal.utf8)
        }
        if !text.isEmpty { parts.append(.literal(text)) }
        self.parts = parts
        self.pattern = pattern
        prefixes = Self.prefixes(path, pattern)
    }

    private static func text(of segments: some Sequence<PathPattern.Segment>) -> [UInt8] {
        Array(PathPattern(segments: Array(segments)).description.utf8)
    }

    private static func prefixes(_ path: PathPattern, _ pattern: PathPattern) -> Prefixes? {
        var (received, made) = (path.segments[...], pattern.segments[...])
        while let segment = received.last, segment == made.last {
            received.removeLast()
            made.removeLast()
        }
        // `/` is one empty literal, and the prefix without a segment.
        if received == [.literal("")] { received = [] }
        if made == [.literal("")] { made = [] }
        let isLiteral = (received + made).allSatisfy { if case .literal = $0 { true } else { false } }
        return isLiteral ? Prefixes(received: text(of: received), made: text(of: made)) : nil
    }

    /// What was removed from the beginning of received paths, which an application has to put before its own to make
    /// them reachable: `/a` for `/a/*` that becomes `/*`. `nil` if there is no such prefix.
    public var removedPrefix: String? {
        guard let prefixes, prefixes.made.isEmpty, !prefixes.received.isEmpty else { return nil }
        return String(decoding: prefixes.received, as: UTF8.self)
    }

    /// The prefixes that references in responses change from and to; `nil` if no reference changes.
    public var references: (from: String, to: String)? {
        prefixes.map {
            (String(decoding: $0.made, as: UTF8.self) + "/", String(decoding: $0.received, as: UTF8.self) + "/")
        }
    }

    /// Appends the path that is made of a received one.
    /// - Parameter path: A path that the pattern of received paths matches, in the normal form of ``RequestTarget``.
    public func append(_ path: Span<UInt8>, to result: inout [UInt8]) {
        for part in parts {
            switch part {
            case .literal(let bytes): result += bytes
            case .segment(let offset, let slashes):
                let start = Self.start(path, offset, slashes)
                var end = start
                while end < path.count, path[end] != UInt8(ascii: "/") { end += 1 }
                Self.copy(path, start..<end, to: &result)
            case .rest(let offset, let slashes):
                Self.copy(path, Self.start(path, offset, slashes)..<path.count, to: &result)
            }
        }
    }

    private static func start(_ path: Span<UInt8>, _ offset: Int, _ slashes: Int) -> Int {
        var index = min(offset, path.count)
        var left = slashes
        while left > 0, index < path.count {
            if path[index] == UInt8(ascii: "/") { left -= 1 }
            index += 1
        }
        return index
    }

    private static func copy(_ path: Span<UInt8>, _ range: Range<Int>, to result: inout [UInt8]) {
        result.reserveCapacity(result.count + range.count)
        for index in range { result.append(path[index]) }
    }
}

/// Why a pattern cannot be made of another one.
public enum PathRewriteError: Error, Sendable, Equatable {
    /// The path has no parameter of this name.
    case unknownName(String)
    /// The path has no `*`.
    case wildcard
}

/// What a route does with a request that it permits.
public enum RouteAction: Sendable, Equatable {
    /// Forwards it to the upstream with this index in ``GatewayConfiguration/upstreams``, with the path that the rewrite
    /// makes; `nil` is the received one.
    case forward(upstream: Int, PathRewrite?)
    /// Responds with a redirect.
    case redirect(RedirectTemplate)
}

/// A redirect whose target is made of the path of the request (RFC 9110 §15.4).
public struct RedirectTemplate: Sendable, Equatable {
    /// The statuses: with 301 and 302, clients may change POST to GET.
    public static let statuses = [301, 302, 303, 307, 308]

    /// The origin of the target; empty for that of the request.
    public let origin: String
    /// Makes the path of the target.
    public let rewrite: PathRewrite
    /// One of ``statuses``.
    public let status: Int
    /// Whether the target has the query of the request.
    public let keepsQuery: Bool

    /// Creates a redirect.
    public init(origin: String, rewrite: PathRewrite, status: Int, keepsQuery: Bool) {
        self.origin = origin
        self.rewrite = rewrite
        self.status = status
        self.keepsQuery = keepsQuery
    }

    /// The target pattern in its textual form.
    public var target: String { origin + rewrite.pattern.description }

    /// Whether caches may reuse the redirect although no field permits it (RFC 9110 §15.4.2, §15.4.9).
    public var isPermanent: Bool { status == 301 || status == 308 }

    /// The value of `Location`.
    /// - Parameters:
    ///   - path: As in ``PathRewrite/append(_:to:)``.
    ///   - query: With its question mark; empty without one.
    public func location(path: Span<UInt8>, query: [UInt8]) -> [UInt8] {
        var result = Array(origin.utf8)
        rewrite.append(path, to: &result)
        if keepsQuery { result += query }
        return result
    }
}
