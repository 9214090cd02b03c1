/// Suggests the likely intended name for an unknown name.
enum NameSuggestion {
    /// The candidate with the smallest edit distance; `nil` if every distance exceeds a third of the name and 2.
    static func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
        let wanted = Array(name.lowercased())
        var best: (name: String, distance: Int)?
        for candidate in Set(candidates).sorted() {
            let distance = distance(wanted, Array(candidate.lowercased()))
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        guard let best, best.distance <= max(2, wanted.count / 3), best.distance < wanted.count else { return nil }
        return best.name
    }

    /// The suggestion for an unknown name: the nearest candidate, otherwise a list of up to 20 candidates.
    static func suggestion(for name: String, among candidates: [String]) -> String {
        if let nearest = nearest(to: name, among: candidates) {
            return "did you mean \(DiagnosticText.quoted(nearest))?"
        }
        guard !candidates.isEmpty else { return "leave it out" }
        return "write one of: " + candidates.prefix(20).map { DiagnosticText.escaped($0) }.joined(separator: ", ")
    }

    /// The optimal string alignment distance: insertions, deletions, replacements and swaps of adjacent characters.
    static func distance(_ left: [Character], _ right: [Character]) -> Int {
        guard !left.isEmpty, !right.isEmpty else { return max(left.count, right.count) }
        var beforePrevious: [Int] = []
        var previous = Array(0...right.count)
        for row in 1...left.count {
            var current = [row]
            for column in 1...right.count {
                let cost = left[row - 1] == right[column - 1] ? 0 : 1
                var value = min(previous[column] + 1, current[column - 1] + 1, previous[column - 1] + cost)
                if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
                    value = min(value, beforePrevious[column - 2] + 1)
                }
                current.append(value)
            }
            beforePrevious = previous
            previous = current
        }
        return previous[right.count]
    }
}
