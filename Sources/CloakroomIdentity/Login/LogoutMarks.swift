import CloakroomCore

/// The marks by which a login detects that its provider ended the user's session while the login was in progress: a
/// logout token may arrive before the callback has created the session (OpenID Connect Back-Channel Logout §2.7).
///
/// A mark is about a session at the provider (`sid`) or about all sessions of a subject, and contains the time of the
/// logout: a login that begins later succeeds, since a user may sign in again at once, and a provider may keep its `sid`.
struct LogoutMarks: Sendable {
    let hashes: AccountHasher

    /// The latest time at which a session may have been created, or a login may have begun, that a logout ends: `iat`,
    /// which is rounded down to seconds, but not later than the token was received.
    /// - Parameter skew: How much the provider's clock may be behind: too many sessions end rather than too few.
    static func end(of logout: LogoutToken, receivedAt: WallTime, skew: Duration) -> WallTime {
        min(logout.issuedAt + .milliseconds(999) + skew, receivedAt)
    }

    /// What a mark is about.
    private enum Kind: UInt8 {
        /// The session at the provider with this `sid`.
        case session
        /// All sessions of this `sub`.
        case subject
        /// The sessions of this `sub` without a `sid`: ID tokens need not contain the one of the logout token.
        case namelessSessions
    }

    func keys(of logout: LogoutToken) -> [MarkKey] {
        let session = logout.session.map { keys(.session, logout.issuer, $0) } ?? []
        let kind: Kind = logout.session == nil ? .subject : .namelessSessions
        return session + (logout.subject.map { keys(kind, logout.issuer, $0) } ?? [])
    }

    /// The marks that may end a new session.
    func keys(ending session: SessionProvenance) -> [MarkKey] {
        keys(.subject, session.issuer, session.subject)
            + (session.providerSession.map { keys(.session, session.issuer, $0) }
                ?? keys(.namelessSessions, session.issuer, session.subject))
    }

    private func keys(_ kind: Kind, _ issuer: String, _ name: String) -> [MarkKey] {
        hashes.marks(.endedAtProvider, of: [[kind.rawValue], Array(issuer.utf8), Array(name.utf8)])
    }
}
