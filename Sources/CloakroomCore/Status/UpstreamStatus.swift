/// How an upstream does, for operators.
public struct UpstreamStatus: Sendable, Equatable {
    /// Its configured name.
    public var name: String
    /// Its targets, in the order of the configuration.
    public var targets: [Target]

    /// One target.
    public struct Target: Sendable, Equatable {
        /// Its address as configured: `http://host:port`, `unix:/path`.
        public var address: String
        /// Whether connections are made to it.
        public var circuit: CircuitState
        /// Why a connection to it failed last, since the configuration was put to use; `nil` if none did.
        public var lastFailure: Failure?

        /// Makes a target's status.
        public init(address: String, circuit: CircuitState, lastFailure: Failure? = nil) {
            self.address = address
            self.circuit = circuit
            self.lastFailure = lastFailure
        }
    }

    /// A failure and its moment.
    public struct Failure: Sendable, Equatable {
        /// When, by the wall clock.
        public var time: Timestamp
        /// Why: the kind of failure and what the system said, at most 200 characters. No secret.
        public var reason: String

        /// Makes a failure.
        public init(time: Timestamp, reason: String) {
            self.time = time
            self.reason = reason
        }
    }

    /// Makes a status.
    public init(name: String, targets: [Target]) {
        self.name = name
        self.targets = targets
    }
}

/// Whether connections are made to a target.
public enum CircuitState: String, Sendable, Hashable, CaseIterable {
    /// It could be reached when it was last tried, or was not tried yet.
    case closed
    /// It could not be reached, and is left alone for a while.
    case open
    /// It could not be reached; the while is over, and the next connection tries it again.
    case halfOpen = "half_open"
}
