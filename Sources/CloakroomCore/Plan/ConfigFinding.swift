/// A problem with a configuration value that is detected only when the value is used: an expired certificate, a key
/// that belongs to another certificate, an address in use. The configuration supplies the line of the value.
public struct ConfigFinding: Sendable, Equatable, CustomStringConvertible {
    /// The key of the value: names of sections, and indices of list items.
    public let key: [String]
    /// The problem. Contains no secret.
    public let message: String
    /// How to fix the problem.
    public let suggestion: String
    /// Whether the configuration can still be used.
    public let isWarning: Bool

    /// Creates a finding.
    public init(key: [String], message: String, suggestion: String, isWarning: Bool = false) {
        self.key = key
        self.message = message
        self.suggestion = suggestion
        self.isWarning = isWarning
    }

    /// The problem and the suggestion, without the key: `message (suggestion)`.
    public var sentence: String {
        suggestion.isEmpty ? message : "\(message) (\(suggestion))"
    }

    /// The finding with its key but without its line: `key: message (suggestion)`.
    public var description: String { "\(key.joined(separator: ".")): \(sentence)" }
}

/// An error caused by one value of the configuration.
public protocol ConfigFindingError: Error {
    /// The value and its problem; `nil` if no value caused the error.
    var finding: ConfigFinding? { get }
}
