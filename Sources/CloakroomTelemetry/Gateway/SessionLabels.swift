/// Who ended sessions by signing out: the label `kind`.
public enum SignOutKind: String, Sendable, CaseIterable {
    /// The user, this session.
    case user
    /// The user, all sessions or all others.
    case everywhere
    /// An operator.
    case admin
}

/// What an upstream connection is doing: the label `state`.
public enum UpstreamConnectionState: String, Sendable, CaseIterable {
    /// Carrying an exchange, or kept for the next one.
    case active, idle
}
