/// Which configuration is in effect, for operators.
public struct ConfigStatus: Sendable, Equatable {
    /// The file; `nil` where there is none, as in the demo.
    public var file: String?
    /// The first 12 hexadecimal digits of the SHA-256 of the file's bytes as they were when it was put to use.
    public var hash: String
    /// When it was put to use.
    public var loadedAt: Timestamp
    /// What came of the last attempt to put another one to use; `nil` if there was none since the start.
    public var lastReload: Reload?

    /// An attempt to put another configuration to use.
    public struct Reload: Sendable, Equatable {
        /// When.
        public var time: Timestamp
        /// What is wrong with it, each with file, line, column, key and what to do; empty if it is in effect.
        public var problems: [String]

        /// Makes the outcome of an attempt.
        public init(time: Timestamp, problems: [String] = []) {
            self.time = time
            self.problems = problems
        }
    }

    /// Makes a status.
    public init(file: String? = nil, hash: String, loadedAt: Timestamp, lastReload: Reload? = nil) {
        self.file = file
        self.hash = hash
        self.loadedAt = loadedAt
        self.lastReload = lastReload
    }
}
