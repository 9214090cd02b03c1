/// An error, warning or note about a configuration: location, message and suggested correction.
public struct ConfigDiagnostic: Sendable, Equatable {
    /// How serious a problem is.
    public enum Severity: Sendable {
        /// The configuration is rejected.
        case error
        /// The configuration is used. `check-config` prints the problem and, with `--strict`, exits with 1.
        case warning
        /// The configuration is used and valid. `check-config` prints the note and does not count it.
        case note
    }

    /// The severity; `error` rejects the configuration.
    public let severity: Severity
    /// The file as given by the caller, or `environment` or `--set`.
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
    public var description: String {
        var place = source
        if let line { place += ":\(line)" }
        if let column { place += ":\(column)" }
        var text = place + ": "
        switch severity {
        case .error: break
        case .warning: text += "warning: "
        case .note: text += "note: "
        }
        if let key { text += DiagnosticText.escaped(key) + ": " }
        text += message
        return suggestion.isEmpty ? text : text + " (\(suggestion))"
    }
}

/// All errors of a configuration, ordered by source: file (by line), environment, flags.
public struct ConfigDiagnostics: Error, Sendable, Equatable, CustomStringConvertible {
    /// The errors. Never empty.
    public let problems: [ConfigDiagnostic]

    init(_ problems: [ConfigDiagnostic]) {
        self.problems = Self.ordered(problems)
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
