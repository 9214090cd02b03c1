/// An error, warning or note about a configuration: location, message and suggested correction.
public struct ConfigDiagnostic: Sendable, Equatable, Encodable {
    /// How serious a problem is.
    public enum Severity: String, Sendable, Encodable {
        /// The configuration is rejected.
        case error
        /// The configuration is used. `check-config` prints the problem and, with `--strict`, exits with 1.
        case warning
        /// The configuration is used and valid. `check-config` prints the note and does not count it.
        case note
    }

    /// The severity; `error` rejects the configuration.
    public let severity: Severity
    /// The name of the configuration: the file as given by the caller or `standard input`; or `environment` or `--set`.
    public let source: String
    /// The line, from 1; `nil` if the problem is not on a single line.
    public let line: Int?
    /// The column in Unicode scalars, from 1.
    public let column: Int?
    /// The key with dots, or the name of the environment variable.
    public let key: String?
    /// The message. Contains no secret.
    public let message: String
    /// The suggested correction; may be empty.
    public let suggestion: String

    init(
        source: String, position: FilePosition? = nil, key: String? = nil, message: String, suggestion: String = "",
        severity: Severity = .error
    ) {
        self.severity = severity
        self.source = source
        self.line = position?.line
        self.column = position?.column
        self.key = key
        self.message = message
        self.suggestion = suggestion
    }
}

extension ConfigDiagnostic: CustomStringConvertible {
    /// A single line `file:line:column: key: message (suggestion)`, with `warning:` or `note:` before the key for these
    /// severities.
    public var description: String { line(inColor: false) }

    /// The same line; in color, location and severity are red for an error, yellow for a warning, cyan for a note.
    public func line(inColor isColored: Bool) -> String {
        var place = source
        if let line { place += ":\(line)" }
        if let column { place += ":\(column)" }
        place += ":"
        switch severity {
        case .error: break
        case .warning: place += " warning:"
        case .note: place += " note:"
        }
        // SGR sequences (ECMA-48 §8.3.117): bold and a color; then the default.
        var text = isColored ? "\u{1b}[1;\(severity.color)m\(place)\u{1b}[0m " : place + " "
        if let key { text += key.escaped + ": " }
        text += message
        return suggestion.isEmpty ? text : text + " (\(suggestion))"
    }
}

extension ConfigDiagnostic.Severity {
    fileprivate var color: Int {
        switch self {
        case .error: 31
        case .warning: 33
        case .note: 36
        }
    }
}

/// All errors of a configuration, ordered by source: file (by line), environment, flags.
public struct ConfigDiagnostics: Error, Sendable, Equatable, CustomStringConvertible {
    /// The errors. Never empty.
    public let problems: [ConfigDiagnostic]
    /// The warnings about the values that could be read.
    let warnings: [ConfigDiagnostic]

    init(_ problems: [ConfigDiagnostic], warnings: [ConfigDiagnostic] = []) {
        self.problems = Self.ordered(problems)
        self.warnings = warnings
    }

    /// Problems of the file by line, then those of the environment by name, then those of the flags.
    static func ordered(_ problems: [ConfigDiagnostic]) -> [ConfigDiagnostic] {
        problems.enumerated().sorted { left, right in
            rank(left.element, left.offset) < rank(right.element, right.offset)
        }.map(\.element)
    }

    /// One error per line.
    public var description: String {
        problems.map(\.description).joined(separator: "\n")
    }

    private static func rank(_ problem: ConfigDiagnostic, _ offset: Int) -> (Int, Int, Int, String, Int) {
        let layer =
            switch problem.source {
            case ValueSource.environmentName: 1
            case ValueSource.flagName: 2
            default: 0
            }
        // Only environment variables have no order and are sorted by name.
        return (layer, problem.line ?? 0, problem.column ?? 0, layer == 1 ? problem.key ?? "" : "", offset)
    }
}

/// An error in a value, before its location in the sources is known.
struct ConfigValueError: Error, Equatable {
    let message: String
    let suggestion: String

    init(_ message: String, _ suggestion: String) {
        self.message = message
        self.suggestion = suggestion
    }
}

/// Rejects a value unless a condition is met.
func require(
    _ isMet: Bool, _ message: @autoclosure () -> String, _ suggestion: @autoclosure () -> String
) throws(ConfigValueError) {
    guard isMet else { throw ConfigValueError(message(), suggestion()) }
}

extension [String] {
    /// The words as a choice: `a or b`, `a, b or c`.
    var alternatives: String {
        count < 3 ? joined(separator: " or ") : dropLast().joined(separator: ", ") + " or " + self[count - 1]
    }
}

extension StringProtocol {
    /// The text in quotation marks, with control characters escaped, at most 80 characters.
    var quoted: String {
        let text = escaped
        return text.count > 80 ? "\"\(text.prefix(77))...\"" : "\"\(text)\""
    }

    /// The text for one line of a report: characters that are not visible are written as `\u{…}`.
    var escaped: String {
        var result = ""
        for scalar in unicodeScalars {
            if scalar.isVisible {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }
}

extension Unicode.Scalar {
    /// Whether it is harmless for a terminal: no control character, which could change the terminal, and no invisible one.
    /// Among these are those that change the direction of text: they could disguise a line.
    package var isVisible: Bool {
        if isASCII { return value >= 0x20 && value != 0x7f }
        return switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: !properties.isDefaultIgnorableCodePoint
        }
    }
}

/// Suggests the likely intended name for an unknown name.
package enum NameSuggestion {
    /// The candidate with the smallest edit distance; `nil` if every distance exceeds a third of the name and 2, or for
    /// less than five characters 1: most short words are similar to each other. Another first letter is a typo only at the
    /// distance 1: `version` does not mean `session`.
    static func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
        let wanted = Array(name.lowercased())
        var best: (name: String, distance: Int)?
        for candidate in Set(candidates).sorted() {
            let letters = Array(candidate.lowercased())
            let distance = distance(wanted, letters)
            guard distance < 2 || letters.first == wanted.first else { continue }
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        let most = wanted.count < 5 ? 1 : max(2, wanted.count / 3)
        guard let best, best.distance <= most, best.distance < wanted.count else { return nil }
        return best.name
    }

    /// The most candidates in a list.
    private static let mostListed = 20
    /// How many characters of their beginning names that are likely the same have in common.
    private static let likelyPrefix = 3

    /// The suggestion for an unknown name: the nearest candidate, otherwise a list of candidates, those that begin like
    /// the name first.
    package static func suggestion(for name: String, among candidates: [String]) -> String {
        let longer = candidates.filter { name.count >= likelyPrefix && $0.lowercased().hasPrefix(name.lowercased()) }
        if let nearest = nearest(to: name, among: candidates) ?? (longer.count == 1 ? longer[0] : nil) {
            return "did you mean \(nearest.quoted)?"
        }
        guard !candidates.isEmpty else { return "leave it out" }
        let begun = candidates.map { candidate in
            (candidate, zip(name.lowercased(), candidate.lowercased()).prefix { $0.0 == $0.1 }.count)
        }
        let likely = begun.filter { $0.1 >= likelyPrefix }.sorted { ($1.1, $0.0) < ($0.1, $1.0) }
        let ordered = (likely + begun.filter { $0.1 < likelyPrefix }).map { $0.0 }
        let more = ordered.count > mostListed ? " … and \(ordered.count - mostListed) more" : ""
        return "write one of: " + ordered.prefix(mostListed).map { $0.escaped }.joined(separator: ", ") + more
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
