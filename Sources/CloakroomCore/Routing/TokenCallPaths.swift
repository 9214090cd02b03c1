/// The paths of the identity calls that the gateway makes to upstreams: no route forwards a client's request to them.
///
/// A client that reached a sign-in or refresh call through a route would receive the tokens themselves, without
/// throttling. The comparison is that of ``LenientPath``, and the paths of all upstreams apply to routes to every
/// upstream.
public struct TokenCallPaths: Sendable {
    /// An identity call.
    public struct Call: Sendable, Equatable {
        /// The purpose of a call.
        public enum Kind: String, Sendable, Hashable, CaseIterable {
            /// Exchanges credentials for tokens.
            case signIn
            /// Exchanges a refresh token for new tokens.
            case refresh
            /// Revokes tokens.
            case revoke
            /// Fetches the signed-in user. The only call that a route without a parameter or wildcard may name.
            case user
        }

        /// The purpose of the call.
        public let kind: Kind
        /// The name of the upstream.
        public let upstream: String
        /// The configured path.
        public let path: String
    }

    /// The calls: those that handle tokens before those that fetch a user.
    public let calls: [Call]
    /// The canonical paths, concatenated in the order of `calls`, and the end offset of each.
    private let bytes: [UInt8]
    private let ends: [Int]
    /// The calls whose path no earlier call has: requests are compared with these.
    private let distinct: [Int]

    /// Collects the calls of all upstreams.
    public init(_ upstreams: [UpstreamConfiguration]) {
        var calls: [Call] = []
        for kind in Call.Kind.allCases {
            for upstream in upstreams {
                guard let path = upstream.path(of: kind) else { continue }
                calls.append(Call(kind: kind, upstream: upstream.name, path: path))
            }
        }
        var bytes: [UInt8] = []
        var ends: [Int] = []
        var distinct: [Int] = []
        var seen: Set<[UInt8]> = []
        for (index, call) in calls.enumerated() {
            let path = LenientPath.canonical(Array(call.path.utf8).span)
            if seen.insert(path).inserted { distinct.append(index) }
            bytes += path
            ends.append(bytes.count)
        }
        self.distinct = distinct
        self.calls = calls
        self.bytes = bytes
        self.ends = ends
    }

    /// Whether a path is the path of a call. Allocates nothing.
    /// - Parameter path: In the normal form of ``RequestTarget``, without the query.
    func contains(_ path: Span<UInt8>) -> Bool {
        index(of: path) != nil
    }

    /// Returns the call with this path; `nil` if there is none. Token calls take precedence over user calls of the same
    /// path.
    /// - Parameter path: In the normal form of ``RequestTarget``, without the query.
    public func call(at path: Span<UInt8>) -> Call? {
        index(of: path).map { calls[$0] }
    }

    private func index(of path: Span<UInt8>) -> Int? {
        for index in distinct {
            let start = index == 0 ? 0 : ends[index - 1]
            if LenientPath.isEqual(path, to: bytes.span.extracting(start..<ends[index])) { return index }
        }
        return nil
    }

    private func canonical(_ index: Int) -> ArraySlice<UInt8> {
        bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]]
    }

    // MARK: - Patterns

    /// Returns the token call whose path a pattern equals, which is a configuration error. `nil` for a pattern with a
    /// parameter or wildcard, and for one that equals a user call.
    public func tokenCall(namedBy pattern: PathPattern) -> Call? {
        guard !pattern.isWide else { return nil }
        let path = Array(pattern.description.utf8)
        return call(at: path.span).flatMap { $0.kind == .user ? nil : $0 }
    }

    /// Returns the calls whose paths a pattern with a parameter or wildcard matches, regardless of the case of its
    /// literals. The route of the pattern does not match them.
    public func calls(within pattern: PathPattern) -> [Call] {
        guard pattern.isWide else { return [] }
        return calls.indices.filter { index in
            let path = canonical(index)
            return Self.fits(
                pattern.segments, path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false))
        }.map { calls[$0] }
    }

    private static func fits(_ pattern: [PathPattern.Segment], _ path: [ArraySlice<UInt8>]) -> Bool {
        for (index, segment) in pattern.enumerated() {
            guard index < path.count else { return false }
            switch segment {
            case .literal(let text):
                guard LenientPath.canonical(Array(text.utf8).span).elementsEqual(path[index]) else { return false }
            case .parameter: guard !path[index].isEmpty else { return false }
            case .wildcard: return true
            }
        }
        return pattern.count == path.count
    }

    /// Whether any path that a pattern matches may be the path of a call. May return `true` for a pattern that matches
    /// none; never returns `false` for one that matches any.
    func mayMeet(_ pattern: PathPattern) -> Bool {
        guard pattern.isWide else { return tokenCall(namedBy: pattern) != nil }
        // The part after the first parameter can equal any number of segments, because an encoded slash counts as a
        // slash.
        var prefix = ""
        for segment in pattern.segments {
            guard case .literal(let text) = segment else { break }
            prefix += "/" + text
        }
        let start = LenientPath.canonical(Array(prefix.utf8).span)
        return calls.indices.contains { index in
            let path = canonical(index)
            guard path.starts(with: start) else { return false }
            return start.isEmpty || path.count == start.count || path.dropFirst(start.count).first == UInt8(ascii: "/")
        }
    }
}

extension PathPattern {
    /// Whether the pattern has a parameter or a wildcard and therefore matches more than one path.
    public var isWide: Bool {
        segments.contains { segment in
            if case .literal = segment { false } else { true }
        }
    }
}

extension UpstreamConfiguration {
    fileprivate func path(of kind: TokenCallPaths.Call.Kind) -> String? {
        switch kind {
        case .signIn: signIn?.path
        case .refresh: refresh?.path
        case .revoke: revoke?.path
        case .user: user?.path
        }
    }
}
