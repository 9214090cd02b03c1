import CloakroomCore

/// Checks the claims of access tokens whose signature is verified (RFC 9068 §4), and makes sessions of them.
struct AccessTokenRules {
    let provider: ProviderIdentity
    /// The registrations of the gateway, also those at other providers.
    let clients: [ProviderIdentity]
    let configuration: IdentityConfiguration
    private var permitted: IdentityConfiguration.AccessTokens { configuration.accessTokens ?? .init() }

    /// The session of a token: without a ticket, and valid for as long as the token is.
    /// - Throws: ``TokenRejection``.
    func session(
        _ token: VerifiedToken, _ text: Secret, key: SessionKey, now: WallTime
    ) throws(TokenRejection) -> Session {
        let claims = TokenClaims(token.claims)
        guard permitted.types.contains(token.type), token.type != .jwt || isForAccess(claims) else { throw .wrongType }
        try claims.checkIssuer(provider)
        try checkClient(claims)
        guard try claims.audience().contains(where: permitted.audience.hasSame) else { throw .wrongAudience }
        let skew = provider.clockSkew
        guard let end = try claims.checkExpiry(provider, now: now) else { throw .invalidExpiry }
        guard end - now <= permitted.maximumAge + skew else { throw .expiresTooLate }
        _ = try claims.checkIssuedAt(from: nil, to: now + skew)
        try claims.checkNotBefore(provider, now: now)
        // The key that the token is bound to is not verified (RFC 7800 §3.1).
        guard !claims.contains("cnf") else { throw .senderConstrained }
        guard let subject = try claims.subject() else { throw .invalidSubject }
        let tokens = TokenSet(authorization: Secret(bytes: TokenResponse.bearerPrefix + text.bytes), obtainedAt: now)
        var (kept, keep) = (token.claims, configuration.keep)
        // Names separated by spaces (RFC 9068 §2.2.3), or a list of names.
        let scope = try claims.names(of: "scope", or: .invalidScope).flatMap { $0.split(separator: " ") }
        kept["scope"] = scope.isEmpty ? nil : .array(scope.map { .string(String($0)) })
        keep.claims.append("scope")
        // The length of the token is their bound.
        keep.bytes = .max
        guard let document = try? KeptClaims.select(from: kept, keep, without: tokens) else { throw .invalidPayload }
        let provenance = SessionProvenance(
            identity: configuration.name, issuer: provider.issuer, subject: subject,
            authenticatedAt: try claims.time("auth_time", or: .invalidAuthenticationTime),
            acr: try claims.name("acr", or: .invalidContextClass), nonceHash: [], claims: document)
        return Session(
            key: key, user: UserProfile(json: UserDocument.empty, account: provenance.account), tokens: tokens,
            source: configuration.source, provenance: provenance, createdAt: now.sessionTime,
            expiresAt: (end + skew).sessionTime, lastUsedAt: now.sessionTime)
    }

    /// Whether a token of the type JWT is no ID token, logout token or, of Keycloak, refresh token (RFC 8725 §3.12).
    private func isForAccess(_ claims: TokenClaims) -> Bool {
        let others: [JSONMemberName] = ["nonce", "at_hash", "c_hash", "events"]
        return !others.contains(where: claims.contains) && [nil, .string("Bearer")].contains(claims["typ"])
    }

    /// The client, which may be stated twice, is permitted.
    private func checkClient(_ claims: TokenClaims) throws(TokenRejection) {
        let stated = [try claims.name("client_id", or: .otherClient), try claims.name("azp", or: .otherClient)]
            .compactMap(\.self)
        let own = clients.filter { TokenClaims.isSame($0.issuer, provider.issuer) }.map(\.clientID)
        guard !stated.contains(where: own.hasSame) else { throw .ownToken }
        let isPermitted = permitted.clients.isEmpty || stated.allSatisfy(permitted.clients.hasSame)
        guard !stated.isEmpty, isPermitted else { throw .otherClient }
    }
}

extension [String] {
    fileprivate func hasSame(_ name: String) -> Bool { contains { TokenClaims.isSame($0, name) } }
}
