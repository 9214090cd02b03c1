/// The state of an upstream, for operators.
public struct UpstreamStatus: Sendable, Equatable {
    /// Its configured name.
    public var name: String
    /// Its targets, in the order of the configuration.
    public var targets: [Target]

    /// A target of the upstream.
    public struct Target: Sendable, Equatable {
        /// The configured address: `http://host:port`, `unix:/path`.
        public var address: String
        /// Whether the gateway connects to the target.
        public var circuit: CircuitState
        /// The last connection failure since the configuration was applied; `nil` if there was none.
        public var lastFailure: Failure?

        /// Creates the status of a target.
        public init(address: String, circuit: CircuitState, lastFailure: Failure? = nil) {
            self.address = address
            self.circuit = circuit
            self.lastFailure = lastFailure
        }
    }

    /// A failure and its time.
    public struct Failure: Sendable, Equatable {
        /// When the connection failed, in wall-clock time.
        public var time: Timestamp
        /// The kind of failure and the system's error message, at most 200 characters. Contains no secret.
        public var reason: String

        /// Creates a failure.
        public init(time: Timestamp, reason: String) {
            self.time = time
            self.reason = reason
        }
    }

    /// Creates a status.
    public init(name: String, targets: [Target]) {
        self.name = name
        self.targets = targets
    }
}

/// Whether the gateway connects to a target.
public enum CircuitState: String, Sendable, Hashable, CaseIterable {
    /// The last connection attempt succeeded, or there was none yet.
    case closed
    /// The last connection attempt failed; the target is skipped until its back-off ends.
    case open
    /// The back-off after a failure is over; the next connection attempt tries the target again.
    case halfOpen = "half_open"
}
