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

    /// The name of the identity.
    public var name: String
    /// The issuer.
    public var issuer: String
    /// Whether users can sign in.
    public var condition = Condition.down
    /// The number of keys that can verify tokens.
    public var keys = 0
    /// The number of published keys that cannot be used.
    public var skippedKeys = 0
    /// When the keys were fetched, in wall-clock time; `nil` if they never were.
    public var keysFetchedAt: WallTime?
    /// The differences between the provider and the configuration, one sentence with a remedy each.
    public var findings: [String] = []
    /// The last failure since the configuration was applied; `nil` if there was none.
    public var lastFailure: FailureStatus?

    package init(name: String, issuer: String) { (self.name, self.issuer) = (name, issuer) }
}
