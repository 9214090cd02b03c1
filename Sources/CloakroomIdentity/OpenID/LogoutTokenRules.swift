package import CloakroomCore

/// The checked claims of a logout token (OpenID Connect Back-Channel Logout §2.4).
package struct LogoutToken: Sendable, Equatable {
    /// `sid`. Only the sessions with it end, of ``subject`` if the token has one; also those of the subject whose ID token
    /// had no `sid`, as far as they began before `iat`.
    package let session: String?
    /// `sub`. Without a `sid`, all of its sessions end that began before `iat`: a session that the user creates afterwards
    /// continues, even if the token is delayed. At least one of both is present.
    package let subject: String?
    /// `iss`.
    package let issuer: String
    /// `jti`, 1 to 1,024 bytes, unique within its issuer. To be marked when all sessions are ended.
    package let id: String
    /// `iat`.
    package let issuedAt: WallTime
    /// The time from which the token would be too old if it was sent again, and so the end of the mark of ``id``.
    package let replayableUntil: WallTime
}

/// Checks the claims of logout tokens whose signature is verified (OpenID Connect Back-Channel Logout §2.6).
///
/// No ID token passes, because it has no `events`, and no logout token passes as an ID token, because it has them.
package struct LogoutTokenRules: Sendable {
    /// The event that a logout token reports (§2.4).
    package static let event: JSONMemberName = "http://schemas.openid.net/event/backchannel-logout"

    /// The maximum age of a token, by `iat`: providers send them at once, or not at all.
    package static let maximumAge: Duration = .seconds(120)

    package let provider: ProviderIdentity

    /// Checks a token.
    /// - Throws: ``TokenRejection``: respond with 400 (§2.8).
    package func check(_ token: VerifiedToken, now: WallTime) throws(TokenRejection) -> LogoutToken {
        guard [.unspecified, .jwt, .logout].contains(token.type) else { throw .wrongType }
        let claims = TokenClaims(token.claims)
        try claims.checkIssuer(provider)
        try claims.checkAudience(provider)
        // Drafts of the specification had no `exp`.
        _ = try claims.checkExpiry(provider, now: now)
        let issuedAt = try claims.checkIssuedAt(from: now - Self.maximumAge, to: now + provider.clockSkew)
        try claims.checkNotBefore(provider, now: now)
        guard case .object(let events)? = claims["events"], case .object? = events[Self.event] else {
            throw .invalidEvents
        }
        // `null` is a nonce too.
        guard !claims.contains("nonce") else { throw .nonceInLogoutToken }
        guard let id = try claims.name("jti", or: .invalidTokenID) else { throw .invalidTokenID }
        let subject = try claims.subject()
        let session = try claims.name("sid", or: .invalidSessionID)
        guard session != nil || subject != nil else { throw .noSubjectOrSession }
        return LogoutToken(
            session: session, subject: subject, issuer: provider.issuer, id: id, issuedAt: issuedAt,
            replayableUntil: issuedAt + Self.maximumAge + .seconds(1))
    }
}
