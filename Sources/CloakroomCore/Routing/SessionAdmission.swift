/// Whether a session may be used. Requests, account endpoints and long-lived responses all ask
/// ``SessionRules/admit(_:now:)`` for it.
package enum SessionAdmission: Sendable {
    /// Why a session may not be used although it is valid.
    package enum DenialReason: Sendable, Equatable {
        /// No identity of the configuration has its source: the identity was removed, or its issuer has changed.
        case unknownSource
        /// The identity of the session may not use the route.
        case wrongIdentity
        /// The user does not have this claim with an acceptable value, or a claim header cannot contain it.
        case missingClaim(String)
        /// The user has to authenticate again.
        case stepUp
        /// The session is not bound to a device.
        case unbound
    }

    /// The session may be used, and the upstream receives this token of it.
    case admitted(Session, SessionRules.Token)
    /// There is no valid session, for the given reason.
    case missing(UnauthorizedReason)
    /// The session is not cached locally: load it, then ask again.
    case notCached
    /// The session may not be used for this.
    case denied(DenialReason, Session)

    /// Whether a long-lived response that has begun with the session ends: for the same reasons as a new request is
    /// rejected, apart from the authentication, since `maxAge` passes for every session.
    package var endsResponse: Bool {
        switch self {
        case .admitted, .notCached, .denied(.stepUp, _): false
        case .missing, .denied: true
        }
    }
}
