import CloakroomCore

/// There are more classes of requests than `prove` examines.
struct TooManyClasses: Error {
    let message: String
    let suggestion: String

    static let paths = Self(
        message: "the routes and statements distinguish too many classes of paths",
        suggestion: "prove the statements in several files, or with fewer parameters in paths")

    static let decisions = Self(
        message: "the routes and statements distinguish more than \(Proof.mostDecisions) requests",
        suggestion: "prove the statements in several files, each with the claims and hosts of its statements")
}

/// One path for each class of paths that no decision and no statement distinguishes, the shortest ones first.
///
/// Why these suffice: whatever decides about a path reads it segment by segment, from the left, and asks of a segment only
/// whether it is equal to one of finitely many literals, whether it is empty, and whether it is the last one. It asks this
/// of three readings: the bytes (``PathPattern``), and the two of ``PathPattern/lenientReadings(of:)``. What a
/// pattern still accepts after a segment is its remaining part, so a position in each pattern of each reading is all that
/// is known about a prefix: the state below. Two prefixes with the same state are decided alike whatever follows, so one
/// of them, the shortest, represents all. States are finitely many, because positions are. From a state, the segments that
/// make a difference are the literals that come next in some pattern, a spelling of each that only a lenient reading
/// equates, one that is equal to none, and those whose number differs between the readings: one that is ignored, one
/// that an encoded slash splits, and one that ends the path for lenient servers.
///
/// A path that leads to its parent for lenient servers is read like one with an ignored segment, and is rejected more
/// often; parameters of an encoded semicolon are read like no text in one reading and like another text in the other. Both
/// are served only if one of the paths here is. Rewritten paths are made of whole segments: what they are compared with, the
/// paths of token calls and of statements, becomes patterns of received paths by ``PathRewrite/received(by:becoming:_:)``.
/// Not covered are dot segments that are hidden by double encoding, where no stricter route withholds them: they are what
/// the upstream makes of them.
struct PathClasses {
    struct Sample: Equatable {
        /// In the normal form of ``RequestTarget``.
        let path: String
        /// Whether all readings have the same segments, as those of paths that clients usually send.
        let isPlain: Bool
    }

    /// The paths, shortest first.
    private(set) var samples: [Sample] = []

    /// The maximum number of states.
    static let limit = 50_000
    /// The maximum number of positions in all of them, of 8 bytes each.
    private static let positionLimit = 8_000_000

    private let exact: SegmentTests
    private let lenient: SegmentTests
    private let literals: Set<String>
    /// A segment that is equal to no literal in any reading, and begins no literal.
    private let word: String
    /// Letters like ``word``, so that segments that nothing names are short and differ.
    private let letters: [String]

    /// - Parameter patterns: All that decide, and those of statements.
    init(_ patterns: [PathPattern]) throws(TooManyClasses) {
        exact = SegmentTests(patterns)
        lenient = SegmentTests(patterns.map(\.lenient))
        literals = exact.literals
        var word = "x"
        while literals.union(lenient.literals).contains(where: { $0.lowercased().hasPrefix(word) }) { word += "x" }
        self.word = word
        let known = literals.union(lenient.literals).map { $0.lowercased() }
        letters = "xyzabcdefghijklmnopqrstuvw".map(String.init).filter { letter in
            !known.contains { $0.hasPrefix(letter) }
        }
        try explore()
        samples.sort { ($0.path.utf8.count, $0.path) < ($1.path.utf8.count, $1.path) }
    }

    /// What is known about a prefix of a path.
    private struct State: Hashable {
        var exact: [SegmentTests.Position]
        /// An encoded slash is one.
        var split: [SegmentTests.Position]
        /// An encoded slash is another character.
        var opaque: [SegmentTests.Position]
        /// An encoded slash has begun in the segment, which therefore equals no literal.
        var isCompound = false
        /// The rest of the path is ignored where an encoded slash is one.
        var isCut = false
        var isPlain = true

        var size: Int { exact.count + split.count + opaque.count }
    }

    /// A segment, or a part of one.
    private struct Piece {
        let text: String
        /// Its lenient form; `nil` if it is ignored.
        let reading: String?
        var isPlain = true
        var cuts = false
    }

    private mutating func explore() throws(TooManyClasses) {
        let start = State(exact: exact.start, split: lenient.start, opaque: lenient.start)
        var queue = [(state: start, prefix: "/", count: 0)]
        var (seen, ended): (Set<State>, Set<State>) = ([start], [])
        var (next, positions) = (0, 0)
        func end(_ state: State, _ path: String, _ samples: inout [Sample]) {
            if ended.insert(state).inserted { samples.append(Sample(path: path, isPlain: state.isPlain)) }
        }
        while next < queue.count {
            let (state, prefix, count) = queue[next]
            next += 1
            if !state.isCompound {
                var slash = state
                slash.exact = exact.advanced(state.exact, by: "")
                end(slash, prefix, &samples)
            }
            for piece in pieces(at: state, number: count) {
                let whole = after(state, piece, endsSegment: true)
                if seen.insert(whole).inserted {
                    positions += whole.size
                    end(whole, prefix + piece.text, &samples)
                    // No pattern has a longer path.
                    if !whole.exact.isEmpty { queue.append((whole, prefix + piece.text + "/", count + 1)) }
                }
                guard !state.isCut, !piece.cuts, piece.reading != nil else { continue }
                let part = after(state, piece, endsSegment: false)
                if seen.insert(part).inserted {
                    positions += part.size
                    queue.append((part, prefix + piece.text + "%252F", count + 1))
                }
            }
            guard seen.count <= Self.limit, positions <= Self.positionLimit else { throw .paths }
        }
    }

    private func pieces(at state: State, number: Int) -> [Piece] {
        let other = number < letters.count ? letters[number] : "\(word)\(number)"
        var pieces = [Piece(text: other, reading: other)]
        if !state.isCompound {
            pieces += exact.ordered(exact.next(at: state.exact)).map { Piece(text: $0, reading: Self.reading(of: $0)) }
        }
        guard !state.isCut else { return pieces }
        for reading in lenient.ordered(lenient.next(at: state.split).union(lenient.next(at: state.opaque))) {
            // Dots at the end of a segment are ignored.
            var text = reading
            while literals.contains(text) { text += "." }
            pieces.append(Piece(text: text, reading: reading))
            pieces.append(Piece(text: text + "%253F", reading: reading, isPlain: false, cuts: true))
        }
        pieces.append(Piece(text: "%20", reading: nil, isPlain: false))
        pieces.append(Piece(text: "%253F", reading: nil, isPlain: false, cuts: true))
        return pieces
    }

    private static func reading(of literal: String) -> String? {
        guard case .literal(let text)? = PathPattern(segments: [.literal(literal)]).lenient.segments.first,
            !text.isEmpty
        else { return nil }
        return text
    }

    private func after(_ state: State, _ piece: Piece, endsSegment: Bool) -> State {
        var next = state
        if !state.isCut, let reading = piece.reading { next.split = lenient.advanced(state.split, by: reading) }
        next.isCut = state.isCut || piece.cuts
        next.isPlain = state.isPlain && piece.isPlain && endsSegment
        next.isCompound = !endsSegment
        guard endsSegment else { return next }
        let isWhole = !state.isCompound
        next.exact = exact.advanced(state.exact, by: isWhole ? piece.text : word)
        let opaque = isWhole && !piece.cuts ? piece.reading : word
        if let opaque { next.opaque = lenient.advanced(state.opaque, by: opaque) }
        guard next.exact.isEmpty else { return next }
        // No route and no statement has it.
        return State(exact: [], split: [], opaque: [], isPlain: next.isPlain)
    }
}

/// Patterns as a tree, with which a path is compared segment by segment. All names of parameters are alike.
private struct SegmentTests {
    /// What of patterns has been met: the node of their common beginning.
    typealias Position = Int

    /// What follows each node. After a wildcard it is the wildcard again.
    private var nodes: [[PathPattern.Segment: Position]] = [[:]]

    init(_ patterns: [PathPattern]) {
        for pattern in patterns {
            var node = 0
            for segment in pattern.segments {
                let key = if case .parameter = segment { PathPattern.Segment.parameter("") } else { segment }
                let next = nodes[node][key] ?? nodes.count
                nodes[node][key] = next
                if next == nodes.count { nodes.append(segment == .wildcard ? [.wildcard: next] : [:]) }
                node = next
            }
        }
    }

    var start: [Position] { [0] }
    var literals: Set<String> { next(at: Array(nodes.indices)) }

    /// The literals that come next.
    func next(at positions: [Position]) -> Set<String> {
        Set(
            positions.flatMap { nodes[$0].keys }.compactMap { segment in
                if case .literal(let text) = segment, !text.isEmpty { text } else { nil }
            })
    }

    func ordered(_ texts: Set<String>) -> [String] { texts.sorted { ($0.utf8.count, $0) < ($1.utf8.count, $1) } }

    func advanced(_ positions: [Position], by text: String) -> [Position] {
        let segments: [PathPattern.Segment] = [.literal(text)] + (text.isEmpty ? [] : [.parameter("")]) + [.wildcard]
        return positions.flatMap { position in segments.compactMap { nodes[position][$0] } }
    }
}

/// A path, and how lenient servers read it.
struct PathReadings {
    private let exact: PathPattern
    private let lenient: [PathPattern]

    /// - Parameter path: In the normal form of ``RequestTarget``.
    init(_ path: [UInt8]) {
        exact = PathPattern(ofPath: path.dropFirst())
        lenient = PathPattern.lenientReadings(of: path)
    }

    /// Whether it is one of the paths of patterns, or a reading of it is one of lenient ones. All paths are if there are none.
    func meets(_ patterns: [PathPattern], _ lenientPatterns: [PathPattern] = []) -> Bool {
        patterns.isEmpty || patterns.contains { $0.covers(exact) }
            || lenientPatterns.contains { pattern in lenient.contains { pattern.covers($0) } }
    }
}

extension PathRewrite {
    /// The patterns of the received paths that lenient servers could read as those of a pattern once they are rewritten.
    ///
    /// Of an encoded slash, a parameter becomes several of the wanted segments; of a blank, none; and after a `?` that is
    /// encoded the rest of the path is ignored.
    /// - Parameter steps: The number of comparisons, to which those for the pattern are added.
    /// - Throws: ``TooManyClasses`` if there are more than 1,000 patterns, or more than ``mostSteps``.
    static func received(by route: Route, becoming path: PathPattern, _ steps: inout Int) throws(TooManyClasses)
        -> [PathPattern]
    {
        guard let made = route.rewrite?.pattern.segments else { return [] }
        var found: Set<PathPattern> = []
        try extend(
            made[...], path.segments.filter { $0 != .literal("") }[...], [:],
            into: &found, of: route.pattern.segments, &steps)
        return Array(found)
    }

    /// The maximum number of comparisons for all routes and statements: about a second.
    private static let mostSteps = 300_000

    /// - Parameter values: What the names of the route stand for.
    private static func extend(
        _ made: ArraySlice<PathPattern.Segment>, _ wanted: ArraySlice<PathPattern.Segment>,
        _ values: [PathPattern.Segment: [PathPattern.Segment]], into found: inout Set<PathPattern>,
        of received: [PathPattern.Segment], _ steps: inout Int
    ) throws(TooManyClasses) {
        steps += 1
        guard found.count <= 1_000, steps <= mostSteps else { throw .paths }
        var values = values
        if made.first == .wildcard { values[.wildcard] = Array(wanted) }
        let isWhole = wanted.isEmpty || wanted.first == .wildcard
        // The rest may be ignored.
        if isWhole || made.first == .wildcard {
            found.insert(PathPattern(segments: received.flatMap { values[$0] ?? [$0] }))
        }
        guard let segment = made.first, segment != .wildcard else { return }
        let rest = made.dropFirst()
        if case .literal(let text) = segment {
            let literal = PathPattern(segments: [segment]).lenient
            if text.isEmpty || literal.segments.count < 2 {
                try extend(rest, wanted, values, into: &found, of: received, &steps)
            } else if let value = wanted.first, value != .wildcard {
                if case .literal = value, PathPattern(segments: [value]).lenient != literal { return }
                try extend(rest, wanted.dropFirst(), values, into: &found, of: received, &steps)
            }
            return
        }
        let segments = wanted.last == .wildcard ? wanted.dropLast() : wanted
        for count in 0...segments.count {
            values[segment] = Array(segments.prefix(count))
            try extend(rest, wanted.dropFirst(count), values, into: &found, of: received, &steps)
            guard count == segments.count, wanted.last == .wildcard else { continue }
            values[segment]?.append(.parameter("more"))
            try extend(rest, wanted.dropFirst(count), values, into: &found, of: received, &steps)
        }
    }
}
