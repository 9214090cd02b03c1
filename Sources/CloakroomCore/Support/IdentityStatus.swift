/// The state of an OpenID Provider, for operators.
public struct IdentityStatus: Sendable, Equatable {
    /// Whether users can sign in at the provider.
    public enum Condition: String, Sendable, Hashable, CaseIterable {
        /// The metadata and the keys of the provider are current.
        case up
        /// The metadata or the keys are those of an earlier fetch: the provider could not be reached since.
        case stale
        /// The metadata or the keys were never fetched, or are too old: sign-ins fail, sessions continue.
        case down
    }

    /// A failure and its time.
    public struct Failure: Sendable, Equatable {
        /// When it was detected, in wall-clock time.
        public var time: WallTime
        /// What failed and why. Contains nothing that the provider wrote.
        public var reason: String
        /// The first thing that an operator should check.
        public var remedy: String

        package init(time: WallTime, reason: String, remedy: String) {
            self.time = time
            self.reason = reason
            self.remedy = remedy
        }
    }

    /// The name of the identity.
    public var name: String
    /// The issuer.
    public var issuer: String
    /// Whether users can sign in.
    public var condition: Condition
    /// The number of keys that can verify tokens.
    public var keys: Int
    /// The number of published keys that cannot be used.
    public var skippedKeys: Int
    /// When the keys were fetched, in wall-clock time; `nil` if they never were.
    public var keysFetchedAt: WallTime?
    /// The differences between the provider and the configuration, one sentence with a remedy each.
    public var findings: [String]
    /// The last failure since the configuration was applied; `nil` if there was none.
    public var lastFailure: Failure?

    package init(
        name: String, issuer: String, condition: Condition = .down, keys: Int = 0, skippedKeys: Int = 0,
        keysFetchedAt: WallTime? = nil, findings: [String] = [], lastFailure: Failure? = nil
    ) {
        self.name = name
        self.issuer = issuer
        self.condition = condition
        self.keys = keys
        self.skippedKeys = skippedKeys
        self.keysFetchedAt = keysFetchedAt
        self.findings = findings
        self.lastFailure = lastFailure
    }
}
