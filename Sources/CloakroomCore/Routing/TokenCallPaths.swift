/// The paths of the calls that the gateway makes to upstreams for sessions: no route forwards a client's request to them.
///
/// A client that reached a sign-in or refresh call through a route would get the tokens themselves, without a throttle.
/// The comparison is that of ``LenientPath``, and the paths of all upstreams count on routes to every upstream.
public struct TokenCallPaths: Sendable {
    /// One call.
    public struct Call: Sendable, Equatable {
        /// What a call does.
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

        /// What it does.
        public let kind: Kind
        /// The name of the upstream.
        public let upstream: String
        /// The path, as the configuration has it.
        public let path: String
    }

    /// The calls: those that deal in tokens before those that fetch a user.
    public let calls: [Call]
    /// The canonical paths, one after the other in the order of `calls`, and where each ends.
    private let bytes: [UInt8]
    private let ends: [Int]
    /// The calls whose path no call before them has: what a request is compared with.
    private let distinct: [Int]

    /// Takes the calls of all upstreams.
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

    /// Whether a path is one of the calls'. Allocates nothing.
    /// - Parameter path: In the normal form of ``RequestTarget``, without the query.
    func contains(_ path: Span<UInt8>) -> Bool {
        index(of: path) != nil
    }

    /// The call whose path this is; `nil` if it is none. Token calls go before user calls of the same path.
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

    /// The token call that a pattern names, which is a mistake. `nil` for a pattern with a parameter or wildcard, and for
    /// one that names a user call.
    public func tokenCall(namedBy pattern: PathPattern) -> Call? {
        guard !pattern.isWide else { return nil }
        let path = Array(pattern.description.utf8)
        return call(at: path.span).flatMap { $0.kind == .user ? nil : $0 }
    }

    /// The calls whose paths a pattern with a parameter or wildcard fits, whatever the case of its literals. Its route
    /// does not serve them.
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

    /// Whether any path that a pattern fits may be one of the calls'. May be wrong about a pattern that cannot; is never
    /// wrong about one that can.
    func mayMeet(_ pattern: PathPattern) -> Bool {
        guard pattern.isWide else { return tokenCall(namedBy: pattern) != nil }
        // What follows the first parameter can equal any number of segments: an encoded slash counts as one.
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
    /// Whether it has a parameter or a wildcard, and so fits more than one path.
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
