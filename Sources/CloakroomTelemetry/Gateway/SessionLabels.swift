/// How a sign-in ended: the label `outcome`.
public enum SignInOutcome: String, Sendable, CaseIterable {
    /// A session was made.
    case success
    /// The upstream refused the credentials.
    case rejected
    /// The request was malformed and never went upstream.
    case invalid
    /// Too many failures before it.
    case throttled
    /// The upstream could not be reached or made no sense.
    case upstreamError = "upstream_error"
}

/// Who ended sessions by signing out: the label `kind`.
public enum SignOutKind: String, Sendable, CaseIterable {
    /// The user, this session.
    case user
    /// The user, all sessions or all others.
    case everywhere
    /// An operator.
    case admin
}

/// Why a session ended: the label `reason`.
public enum SessionEndReason: String, Sendable, CaseIterable {
    /// Not used for the idle timeout.
    case expiredIdle = "expired_idle"
    /// Its absolute lifetime was over.
    case expiredAbsolute = "expired_absolute"
    /// Ended from elsewhere: another session of the user, or an operator.
    case revoked
    /// The upstream refused to renew its tokens.
    case refreshRejected = "refresh_rejected"
    /// The user signed out.
    case signedOut = "signed_out"
    /// A new sign-in took its place.
    case replaced
}

/// What an upstream connection is doing: the label `state`.
public enum UpstreamConnectionState: String, Sendable, CaseIterable {
    /// Carrying an exchange, or kept for the next one.
    case active, idle
}
