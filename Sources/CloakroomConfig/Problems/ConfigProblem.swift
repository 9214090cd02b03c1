/// One error or warning about a configuration: its place, what is wrong and what to write instead.
public struct ConfigDiagnostic: Sendable, Equatable {
    /// How serious a problem is.
    public enum Severity: Sendable {
        /// The configuration is rejected.
        case error
        /// The configuration is used; `check-config` shows the problem, and with `--strict` exits with 1.
        case warning
        /// The configuration is used, and nothing is wrong with it: `check-config` shows what it means and does not count
        /// it.
        case note
    }

    /// Whether the configuration is rejected because of it.
    public let severity: Severity
    /// The file as it was named, or `environment` or `--set`.
    public let source: String
    /// The line, from 1; `nil` where the mistake is not on one line.
    public let line: Int?
    /// The column in Unicode scalars, from 1.
    public let column: Int?
    /// The key with dots, or the name of the environment variable.
    public let key: String?
    /// What is wrong. Never holds a secret.
    public let message: String
    /// What to write instead; may be empty.
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
    /// One line: `file:line:column: key: what is wrong (what to write)`, with `warning:` or `note:` before the key unless it is an error.
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

/// All mistakes of one configuration: those of the file by line, then the environment's, then the flags'.
public struct ConfigDiagnostics: Error, Sendable, Equatable, CustomStringConvertible {
    /// The mistakes. Never empty.
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

    /// One mistake a line.
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
        // Only variables have no order of their own.
        return (layer, problem.line ?? 0, problem.column ?? 0, layer == 1 ? problem.key ?? "" : "", offset)
    }
}
