/// A certificate that a listener presents, for operators.
///
/// Folder `Support/`: values that several modules exchange and that decide nothing: status, time, secrets.
public struct CertificateStatus: Sendable, Equatable {
    /// The listener's address as configured.
    public var listener: String
    /// The file that the certificate was read from.
    public var file: String
    /// The DNS names that the certificate was issued for.
    public var names: [String]
    /// When the certificate expires.
    public var notAfter: WallTime

    package init(listener: String, file: String, names: [String], notAfter: WallTime) {
        self.listener = listener
        self.file = file
        self.names = names
        self.notAfter = notAfter
    }
}

/// The configuration in effect, for operators.
public struct ConfigStatus: Sendable, Equatable {
    /// The configuration file, or `standard input`; `nil` if there is none, as in the demo.
    public var file: String?
    /// The first 12 hexadecimal digits of the SHA-256 of its bytes when it was applied.
    public var hash: String
    /// When the configuration was applied.
    public var loadedAt: WallTime
    /// The result of the last reload attempt; `nil` if there was none since the start.
    public var lastReload: Reload?

    /// An attempt to apply another configuration.
    public struct Reload: Sendable, Equatable {
        /// When the attempt was made.
        public var time: WallTime
        /// The problems of the rejected configuration, each with file, line, column, key and suggestion; empty if it
        /// was applied.
        public var problems: [String]

        package init(time: WallTime, problems: [String] = []) {
            self.time = time
            self.problems = problems
        }
    }

    package init(file: String? = nil, hash: String, loadedAt: WallTime, lastReload: Reload? = nil) {
        self.file = file
        self.hash = hash
        self.loadedAt = loadedAt
        self.lastReload = lastReload
    }
}

/// A failure of a target or a provider and its time, for operators.
public struct FailureStatus: Sendable, Equatable {
    /// When it was detected, in wall-clock time.
    public var time: WallTime
    /// The reason in plain words. Contains no secret and no text of the peer.
    public var reason: String
    /// The first thing that an operator should check; `nil` if the reason is enough.
    public var remedy: String?

    package init(time: WallTime, reason: String, remedy: String? = nil) {
        self.time = time
        self.reason = reason
        self.remedy = remedy
    }
}

/// The state of an upstream, for operators.
public struct UpstreamStatus: Sendable, Equatable {
    /// Its configured name.
    public var name: String
    /// Its targets, in the order of the configuration.
    public var targets: [Target]
    /// Whether targets that are not usable are used because none is usable.
    public var isPanicking: Bool
    /// Whether the retry budget is spent, so that failed requests are not sent again.
    public var isRetryBudgetSpent: Bool
    /// The host names of targets that could not be resolved for more than 10 intervals.
    public var staleNames: [String]
    /// The names of the routes that forward to it.
    public var routes: [String] = []
    /// Whether it signs users in.
    public var signsUsersIn = false

    /// A target of the upstream, or one address of a target with a host name.
    public struct Target: Sendable, Equatable {
        /// The configured address: `http://host:port`, `unix:/path`.
        public var address: String
        /// The resolved address, `address:port`; `nil` if the configured one is an address or a socket.
        public var peer: String?
        /// Whether the gateway connects to the target.
        public var circuit: CircuitState
        /// Whether the target gets requests.
        public var condition: TargetCondition
        /// Why the target is in this condition, as one phrase; `nil` if there is nothing to add. Contains no secret.
        public var reason: String?
        /// When the condition ends, in wall-clock time; `nil` if no time is set.
        public var until: WallTime?
        /// The requests in flight to the target; `nil` if unknown.
        public var inFlight: Int?
        /// The last connection failure since the configuration was applied; `nil` if there was none.
        public var lastFailure: FailureStatus?

        /// Creates the status of a target.
        /// - Parameter condition: `nil` derives it from the circuit.
        public init(
            address: String, peer: String? = nil, circuit: CircuitState, condition: TargetCondition? = nil,
            reason: String? = nil, until: WallTime? = nil, inFlight: Int? = nil, lastFailure: FailureStatus? = nil
        ) {
            self.address = address
            self.peer = peer
            self.circuit = circuit
            self.condition = condition ?? (circuit == .closed ? .up : .backingOff)
            self.reason = reason
            self.until = until
            self.inFlight = inFlight
            self.lastFailure = lastFailure
        }
    }

    package init(
        name: String, targets: [Target], isPanicking: Bool = false, isRetryBudgetSpent: Bool = false,
        staleNames: [String] = []
    ) {
        self.name = name
        self.targets = targets
        self.isPanicking = isPanicking
        self.isRetryBudgetSpent = isRetryBudgetSpent
        self.staleNames = staleNames
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
