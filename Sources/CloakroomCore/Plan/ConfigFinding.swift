/// A problem of a value in the configuration that only using the value shows: a certificate that has expired, a key that
/// belongs to another certificate, an address in use. The configuration knows in which line the value was given.
public struct ConfigFinding: Sendable, Equatable, CustomStringConvertible {
    /// The key of the value: names of sections, and indices of items of lists.
    public let key: [String]
    /// What is wrong. Holds no secret.
    public let message: String
    /// What to do.
    public let suggestion: String
    /// Whether the configuration can be used nevertheless.
    public let isWarning: Bool

    /// Makes a finding.
    public init(key: [String], message: String, suggestion: String, isWarning: Bool = false) {
        self.key = key
        self.message = message
        self.suggestion = suggestion
        self.isWarning = isWarning
    }

    /// What is wrong and what to do, without the key: `message (suggestion)`.
    public var sentence: String {
        suggestion.isEmpty ? message : "\(message) (\(suggestion))"
    }

    /// The finding with its key and without its line: `key: message (suggestion)`.
    public var description: String { "\(key.joined(separator: ".")): \(sentence)" }
}

/// An error that one value of the configuration caused.
public protocol ConfigFindingError: Error {
    /// What is wrong with which value; `nil` where no value is to blame.
    var finding: ConfigFinding? { get }
}
