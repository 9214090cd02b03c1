/// Something that reads bytes from outside, and what must hold of whatever it reads.
public struct FuzzTarget: Sendable, CustomStringConvertible {
    /// The name, which is that of its folder in the corpus too.
    public let name: String
    /// Pieces of input that mean something to it, for mutations.
    public let words: [[UInt8]]
    /// How long it is usually tried, in seconds.
    public let usualSeconds: Double
    /// What its parser is timed with; the parsers of whole messages are not timed here.
    public let times: [LinearTime]
    private let invariants: @Sendable ([UInt8]) throws(Violation) -> Void

    init(
        _ name: String, words: [String] = [], usualSeconds: Double = 2, times: [LinearTime] = [],
        _ invariants: @escaping @Sendable ([UInt8]) throws(Violation) -> Void
    ) {
        self.name = name
        self.usualSeconds = usualSeconds
        self.times = times
        self.words = words.map { Array($0.utf8) }
        self.invariants = invariants
    }

    /// Reads an input and checks what must hold.
    /// - Throws: ``Violation`` if something does not.
    public func check(_ bytes: [UInt8]) throws(Violation) {
        try invariants(bytes)
    }

    /// The name.
    public var description: String { name }

    /// Every target.
    public static let all: [FuzzTarget] = [
        .requests, .responses, .chunks, .cookies, .requestTargets, .proxyHeaders, .builtHeads, .webSockets, .config,
        .serverReplies, .json, .signIns, .tokenResponses, .userDocuments, .collectorResponses, .retryAfter, .accept,
        .revocations, .forwardedFor, .traceContexts, .origins,
    ]

    /// The target of the given name.
    public static func named(_ name: String) -> FuzzTarget? {
        all.first { $0.name == name }
    }
}

/// An invariant that does not hold.
public struct Violation: Error, CustomStringConvertible {
    /// Which one, and for what.
    public let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// Checks one invariant.
func require(_ holds: Bool, _ what: @autoclosure () -> String) throws(Violation) {
    guard holds else { throw Violation(what()) }
}
