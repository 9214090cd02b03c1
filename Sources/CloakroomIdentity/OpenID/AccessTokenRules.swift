import CloakroomCore

/// Checks the claims of access tokens whose signature is verified (RFC 9068 §4), or about which their provider was asked
/// (RFC 7662 §2.2), and makes sessions of them.
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
        guard let end = try claims.checkExpiry(provider, now: now) else { throw .invalidExpiry }
        _ = try claims.checkIssuedAt(from: nil, to: now + provider.clockSkew)
        return try session(token.claims, until: end, text, key: key, now: now)
    }

    /// The session of a token as its provider states it. Times and the issuer may be absent: the provider has checked them.
    /// - Throws: ``TokenRejection``.
    func session(
        introspected members: [JSONMemberName: JSONValue], _ text: Secret, key: SessionKey, now: WallTime
    ) throws(TokenRejection) -> Session {
        let claims = TokenClaims(members)
        guard claims["active"] == .bool(true) else { throw .inactive }
        guard isAccessToken(claims) else { throw .wrongType }
        if claims["iss"] != nil { try claims.checkIssuer(provider) }
        let end = try claims.checkExpiry(provider, now: now) ?? now + permitted.maximumAge
        if claims["iat"] != nil { _ = try claims.checkIssuedAt(from: nil, to: now + provider.clockSkew) }
        return try session(members, until: end, text, key: key, now: now)
    }

    private func session(
        _ members: [JSONMemberName: JSONValue], until end: WallTime, _ text: Secret, key id: SessionKey, now: WallTime
    ) throws(TokenRejection) -> Session {
        let claims = TokenClaims(members)
        let skew = provider.clockSkew
        try checkClient(claims)
        guard try claims.audience().contains(where: permitted.audience.hasSame) else { throw .wrongAudience }
        guard end - now <= permitted.maximumAge + skew else { throw .expiresTooLate }
        try claims.checkNotBefore(provider, now: now)
        let key = try boundKey(claims)
        guard let subject = try claims.subject() else { throw .invalidSubject }
        let tokens = TokenSet(authorization: Secret(bytes: TokenResponse.bearerPrefix + text.bytes), obtainedAt: now)
        var (kept, keep) = (members, configuration.keep)
        // Names separated by spaces (RFC 9068 §2.2.3), or a list of names.
        let scope = try claims.names(of: "scope", or: .invalidScope).flatMap { $0.utf8.split(separator: 0x20) }
        kept["scope"] = scope.isEmpty ? nil : .array(scope.map { .string(String(Substring($0))) })
        keep.claims.append("scope")
        // The length of the token is their bound, or that of the claims of any session.
        keep.bytes = 16_384
        guard let document = try? KeptClaims.select(from: kept, keep, without: tokens) else { throw .invalidPayload }
        let provenance = SessionProvenance(
            identity: configuration.name, issuer: provider.issuer, subject: subject,
            authenticatedAt: try claims.time("auth_time", or: .invalidAuthenticationTime),
            acr: try claims.name("acr", or: .invalidContextClass), nonceHash: [], claims: document)
        return Session(
            key: id, user: UserProfile(json: UserDocument.empty, account: provenance.account), tokens: tokens,
            source: configuration.source, provenance: provenance,
            device: key.map { DeviceBinding(key: $0, boundAt: now) }, createdAt: now.sessionTime,
            expiresAt: (end + skew).sessionTime, lastUsedAt: now.sessionTime)
    }

    /// The thumbprint of the key that a token is bound to (RFC 9449 §6.1); `nil` for none. Of another kind of key, or a
    /// second one, nothing is verified (RFC 7800 §3.1).
    private func boundKey(_ claims: TokenClaims) throws(TokenRejection) -> [UInt8]? {
        let kinds: [JSONMemberName] = ["typ", "token_type"]
        let statesKey = kinds.contains { claims[$0]?.string.map { ["dpop"].hasSame($0.lowercased()) } ?? false }
        guard claims.contains("cnf") || statesKey else {
            if permitted.dpop == .required { throw .notSenderConstrained }
            return nil
        }
        guard permitted.dpop != .off, case .object(let members)? = claims["cnf"], members.count == 1,
            let key = members["jkt"]?.string.flatMap({ Base64URL.decode($0.utf8) }),
            key.count == DeviceBinding.thumbprintLength
        else { throw .senderConstrained }
        return key
    }

    /// Whether what a provider states about the kind of a token does not exclude an access token: refresh tokens are
    /// active too.
    private func isAccessToken(_ claims: TokenClaims) -> Bool {
        let kinds: [(JSONMemberName, [String])] = [
            ("token_type", ["bearer", "dpop", "access_token"]), ("typ", ["bearer", "dpop", "at+jwt"]),
            ("token_use", ["access", "access_token"]),
        ]
        return kinds.allSatisfy { name, values in
            guard let value = claims[name] else { return true }
            return value.string.map { values.hasSame($0.lowercased()) } ?? false
        }
    }

    /// Whether a token of the type JWT is no ID token, logout token or, of Keycloak, refresh token (RFC 8725 §3.12).
    private func isForAccess(_ claims: TokenClaims) -> Bool {
        let others: [JSONMemberName] = ["nonce", "at_hash", "c_hash", "events"]
        return !others.contains(where: claims.contains)
            && claims["typ"].map { $0.string.map(["Bearer", "DPoP"].hasSame) ?? false } ?? true
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
    /// Whether a text has the same bytes.
    func hasSame(_ name: String) -> Bool { contains { TokenClaims.isSame($0, name) } }
}
