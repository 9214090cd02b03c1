/// The configuration in effect, for operators.
public struct ConfigStatus: Sendable, Equatable {
    /// The configuration file; `nil` if there is none, as in the demo.
    public var file: String?
    /// The first 12 hexadecimal digits of the SHA-256 of the file's bytes when it was applied.
    public var hash: String
    /// When the configuration was applied.
    public var loadedAt: Timestamp
    /// The result of the last reload attempt; `nil` if there was none since the start.
    public var lastReload: Reload?

    /// An attempt to apply another configuration.
    public struct Reload: Sendable, Equatable {
        /// When the attempt was made.
        public var time: Timestamp
        /// The problems of the rejected configuration, each with file, line, column, key and suggestion; empty if it
        /// was applied.
        public var problems: [String]

        /// Creates the result of an attempt.
        public init(time: Timestamp, problems: [String] = []) {
            self.time = time
            self.problems = problems
        }
    }

    /// Creates a status.
    public init(file: String? = nil, hash: String, loadedAt: Timestamp, lastReload: Reload? = nil) {
        self.file = file
        self.hash = hash
        self.loadedAt = loadedAt
        self.lastReload = lastReload
    }
}
