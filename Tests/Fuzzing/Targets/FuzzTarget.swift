/// A parser of untrusted bytes, and the invariants of its results.
public struct FuzzTarget: Sendable, CustomStringConvertible {
    /// The name, which is also that of its folder in the corpus.
    public let name: String
    /// Tokens of the format, inserted by mutations.
    public let words: [[UInt8]]
    /// The time limits of the parser; parsers of complete messages have none here.
    public let times: [LinearTime]
    private let invariants: @Sendable ([UInt8]) throws(Violation) -> Void

    init(
        _ name: String, words: [String] = [], times: [LinearTime] = [],
        _ invariants: @escaping @Sendable ([UInt8]) throws(Violation) -> Void
    ) {
        self.name = name
        self.times = times
        self.words = words.map { Array($0.utf8) }
        self.invariants = invariants
    }

    /// Parses an input and checks the invariants.
    /// - Throws: ``Violation`` if an invariant is violated.
    public func check(_ bytes: [UInt8]) throws(Violation) { try invariants(bytes) }

    /// The name.
    public var description: String { name }

    /// All targets.
    public static let all: [FuzzTarget] = [
        .requests, .responses, .chunks, .cookies, .requestTargets, .proxyHeaders, .webSockets, .config,
        .serverReplies, .clusterReplies, .json, .signIns, .callbacks, .tokenResponses, .userDocuments,
        .collectorResponses, .retryAfter,
        .revocations, .forwardedFor, .traceContexts, .origins, .headerBlocks, .huffman,
        .http2Connections, .http2Frames, .signedTokens, .keySets, .tokenClaims, .sessionRecords, .references,
    ]

    /// The target with a name.
    public static func named(_ name: String) -> FuzzTarget? { all.first { $0.name == name } }
}

/// A violated invariant.
public struct Violation: Error, CustomStringConvertible {
    /// The invariant and the evidence.
    public let description: String

    init(_ description: String) { self.description = description }
}

/// Checks one invariant.
func require(_ holds: Bool, _ what: @autoclosure () -> String) throws(Violation) {
    guard holds else { throw Violation(what()) }
}
