/// The actor of a sign-out: the label `kind`.
public enum SignOutKind: String, Sendable, CaseIterable {
    /// The user, for this session.
    case user
    /// The user, for all or all other sessions.
    case everywhere
    /// An operator.
    case admin
}

/// The state of an upstream connection: the label `state`.
public enum UpstreamConnectionState: String, Sendable, CaseIterable {
    /// In use by an exchange, or idle in the pool.
    case active, idle
}
