package import CloakroomCore
import Crypto

/// The checked claims of an ID token (OpenID Connect Core §2).
///
/// Folder `OpenID/`: tokens and keys of OpenID Providers, which are untrusted until their signature is verified.
package struct IDToken: Sendable {
    /// `iss`.
    package let issuer: String
    /// `sub`, 1 to 255 visible ASCII characters. Unique within its issuer only, and case-sensitive.
    package let subject: String
    /// `sid`, 1 to 1,024 bytes; `nil` for none.
    package let sessionID: String?
    /// `auth_time`; `nil` for none.
    package let authenticatedAt: WallTime?
    /// `acr`, 1 to 1,024 bytes; `nil` for none.
    package let contextClass: String?
    /// `iat`.
    package let issuedAt: WallTime
    /// `exp`.
    package let expiresAt: WallTime
    /// SHA-256 of `nonce`, for the comparison with the ID tokens of refreshes; `nil` for none.
    package let nonceHash: [UInt8]?
    /// All claims, unchecked except for the ones above.
    package let claims: [JSONMemberName: JSONValue]
}

/// Checks the claims of ID tokens whose signature is verified (OpenID Connect Core §3.1.3.7, §12.2).
package struct IDTokenRules: Sendable {
    package let provider: ProviderIdentity

    /// The sign-in that an ID token must belong to.
    package struct SignIn: Sendable {
        /// The nonce of the authorization request.
        package let nonce: Secret
        /// When the authorization request was sent.
        package let startedAt: WallTime
        /// Whether the request contained `max_age`, so that `auth_time` is required.
        package let requiresAuthenticationTime: Bool
        /// The access token of the same response.
        package let accessToken: Secret
    }

    /// The session that the ID token of a refresh must belong to.
    package struct Refresh: Sendable {
        /// `sub` of the session.
        package let subject: String
        /// `auth_time` of the session; `nil` if it is unknown.
        package let authenticatedAt: WallTime?
        /// SHA-256 of the nonce of the sign-in; `nil` if it is unknown, and then each `nonce` is rejected.
        package let nonceHash: [UInt8]?
        /// The access token of the same response.
        package let accessToken: Secret
    }

    /// Checks the ID token of a sign-in (OpenID Connect Core §3.1.3.7).
    /// - Throws: ``TokenRejection``; the sign-in then fails.
    package func check(_ token: VerifiedToken, of signIn: SignIn, now: WallTime) throws(TokenRejection) -> IDToken {
        // Most providers round `iat` down to seconds.
        let earliest = signIn.startedAt - .milliseconds(999) - provider.clockSkew
        let result = try check(token, issuedFrom: earliest, accessToken: signIn.accessToken, now: now)
        guard let nonce = result.nonceHash, Self.isSame(nonce, Self.hash(signIn.nonce.bytes)) else { throw .wrongNonce }
        guard result.authenticatedAt != nil || !signIn.requiresAuthenticationTime else {
            throw .missingAuthenticationTime
        }
        return result
    }

    /// Checks the ID token of a refresh (OpenID Connect Core §12.2). A response without an ID token is permitted and
    /// changes nothing.
    /// - Throws: ``TokenRejection``; the session then keeps its claims and its user.
    package func check(_ token: VerifiedToken, of refresh: Refresh, now: WallTime) throws(TokenRejection) -> IDToken {
        let result = try check(token, issuedFrom: nil, accessToken: refresh.accessToken, now: now)
        guard TokenClaims.isSame(result.subject, refresh.subject) else { throw .otherSubject }
        if let nonce = result.nonceHash {
            guard let expected = refresh.nonceHash, Self.isSame(nonce, expected) else { throw .wrongNonce }
        }
        if let time = result.authenticatedAt, let expected = refresh.authenticatedAt, time != expected {
            throw .otherAuthenticationTime
        }
        return result
    }

    /// SHA-256 of a nonce, as ``IDToken/nonceHash``.
    package static func hash(_ nonce: [UInt8]) -> [UInt8] {
        Array(SHA256.hash(data: nonce))
    }

    // MARK: - Rules of all ID tokens

    private func check(
        _ token: VerifiedToken, issuedFrom earliest: WallTime?, accessToken: Secret, now: WallTime
    ) throws(TokenRejection) -> IDToken {
        // A logout token or an access token of the same provider is no ID token (RFC 8725 §3.12). Logout tokens may have
        // the type JWT, and the ID token of a refresh may lack a nonce: then only the events differ.
        let claims = TokenClaims(token.claims)
        guard token.type == .unspecified || token.type == .jwt, !claims.contains("events") else { throw .wrongType }
        try claims.checkIssuer(provider)
        try claims.checkAudience(provider)
        guard let expiresAt = try claims.checkExpiry(provider, now: now) else { throw .invalidExpiry }
        let issuedAt = try claims.checkIssuedAt(from: earliest, to: now + provider.clockSkew)
        try claims.checkNotBefore(provider, now: now)
        guard let subject = try claims.subject() else { throw .invalidSubject }
        try checkAccessTokenHash(claims, algorithm: token.algorithm, accessToken: accessToken)
        return IDToken(
            issuer: provider.issuer, subject: subject,
            sessionID: try claims.name("sid", or: .invalidSessionID),
            authenticatedAt: try authenticationTime(claims, now: now),
            contextClass: try claims.name("acr", or: .invalidContextClass), issuedAt: issuedAt, expiresAt: expiresAt,
            nonceHash: try nonce(claims), claims: token.claims)
    }

    /// `at_hash`, if present, is the hash of the access token (§3.1.3.8). Without a defined hash function, for EdDSA,
    /// the claim is not compared: both tokens come from the same response of the token endpoint.
    private func checkAccessTokenHash(
        _ claims: TokenClaims, algorithm: SignatureAlgorithm, accessToken: Secret
    ) throws(TokenRejection) {
        guard let value = claims["at_hash"] else { return }
        guard case .string(let hash) = value else { throw .wrongAccessTokenHash }
        guard let expected = algorithm.accessTokenHash(accessToken.bytes) else { return }
        guard Secret(hash) == Secret(expected) else { throw .wrongAccessTokenHash }
    }

    /// `auth_time`: a number of seconds, with fractions. Some providers send 0 for "unknown", which counts as absent.
    private func authenticationTime(_ claims: TokenClaims, now: WallTime) throws(TokenRejection) -> WallTime? {
        guard let time = try claims.time("auth_time", or: .invalidAuthenticationTime) else { return nil }
        guard time <= now + provider.clockSkew else { throw .invalidAuthenticationTime }
        return time.milliseconds > 0 ? time : nil
    }

    private func nonce(_ claims: TokenClaims) throws(TokenRejection) -> [UInt8]? {
        guard let value = claims["nonce"] else { return nil }
        guard case .string(let text) = value else { throw .wrongNonce }
        return Self.hash(Array(text.utf8))
    }

    /// Compares digests in constant time.
    private static func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        Secret(bytes: left) == Secret(bytes: right)
    }
}
