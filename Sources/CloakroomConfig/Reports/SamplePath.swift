import CloakroomCore

/// A path that represents all paths of a pattern that no more specific pattern matches.
struct SamplePath {
    let pattern: PathPattern
    let path: String

    /// One sample for every pattern of both tables and for every overlap of one from each, followed by further samples.
    ///
    /// The further samples are reserved paths and, for every wildcard, paths of each depth with and without a trailing
    /// slash, because other routes may match only some depths. They are reported only if their result differs from that
    /// of the covering pattern.
    /// - Parameter kept: Patterns of reserved paths.
    static func samples(_ old: [PathPattern], _ new: [PathPattern], kept: [PathPattern]) -> [SamplePath] {
        let all = new + old + kept
        let names = Set(
            all.flatMap(\.segments).compactMap { segment in
                if case .literal(let text) = segment { text } else { nil }
            })
        // The values differ from every literal and from each other, so that the order in which a rewrite uses them is
        // visible. Wildcard samples are longer than every fixed pattern.
        var word = "any"
        while names.contains(where: { $0.hasPrefix(word) }) { word += "-" }
        let depth = (all.map(\.segments.count).max() ?? 0) + 1

        var seen: Set<String> = []
        var samples: [SamplePath] = []
        func add(_ segments: [PathPattern.Segment]) {
            let path = segments.enumerated().map { "/" + Self.text(of: $1, at: $0, word: word, depth: depth) }.joined()
            if seen.insert(path).inserted {
                samples.append(SamplePath(pattern: PathPattern(segments: segments), path: path))
            }
        }
        (new + old).map(\.segments).forEach(add)
        for left in new {
            for right in old {
                if let overlap = overlap(left.segments[...], right.segments[...]) { add(overlap) }
            }
        }
        kept.map(\.segments).forEach(add)
        for segments in samples.map(\.pattern.segments) where segments.last == .wildcard {
            for count in 0..<depth {
                let deeper = segments.dropLast() + Array(repeating: .parameter(word), count: count)
                if count > 0 { add(deeper) }
                add(deeper + [.literal("")])
            }
        }
        return samples
    }

    /// The pattern of the paths that match both patterns; `nil` if there are none.
    static func overlap(
        _ left: ArraySlice<PathPattern.Segment>, _ right: ArraySlice<PathPattern.Segment>
    ) -> [PathPattern.Segment]? {
        var result: [PathPattern.Segment] = []
        var left = left
        var right = right
        while true {
            switch (left.first, right.first) {
            case (nil, nil): return result
            case (.wildcard?, _?): return result + right
            case (_?, .wildcard?): return result + left
            case (nil, _), (_, nil): return nil
            case (.literal(let one)?, .literal(let other)?):
                guard one == other else { return nil }
                result.append(.literal(one))
            case (.literal(let text)?, .parameter?), (.parameter?, .literal(let text)?):
                guard !text.isEmpty else { return nil }
                result.append(.literal(text))
            case (.parameter(let name)?, .parameter?): result.append(.parameter(name))
            }
            left.removeFirst()
            right.removeFirst()
        }
    }

    private static func text(of segment: PathPattern.Segment, at index: Int, word: String, depth: Int) -> String {
        switch segment {
        case .literal(let text): text
        case .parameter: "\(word)\(index)"
        case .wildcard: (index..<(index + depth)).map { "\(word)\($0)" }.joined(separator: "/")
        }
    }
}
