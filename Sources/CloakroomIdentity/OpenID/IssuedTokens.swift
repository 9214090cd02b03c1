package import CloakroomCore

/// The members of a successful response of a token endpoint (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3, RFC 8693
/// §2.2.1).
struct IssuedTokens: Sendable, Unprintable {
    private static let configuration = IdentityEndpointConfiguration(path: "/", credentials: .oauth)

    let tokens: TokenSet
    /// `id_token`; `nil` if there is none.
    let idToken: Secret?
    /// `issued_token_type`; `nil` if there is none.
    let issuedTokenType: String?
    /// The end that `refresh_expires_in` reports; `nil` if it is absent. 0 is "never".
    let endsBy: WallTime?

    var accessToken: Secret { tokens.accessToken }

    /// Parses a response.
    /// - Returns: `nil` unless it contains an access token for `Bearer`; see ``TokenResponse``.
    init?(_ body: [UInt8], now: WallTime, onInvalidLifetime: () -> Void) {
        guard
            let tokens = TokenResponse.read(
                body, configuration: Self.configuration, now: now, onInvalidLifetime: onInvalidLifetime),
            let document = JSONValue(document: body)
        else { return nil }
        self.tokens = tokens
        switch document[path: "id_token"] {
        case nil: idToken = nil
        case .string(let text)?: idToken = Secret(text)
        default: return nil
        }
        issuedTokenType = if case .string(let type)? = document[path: "issued_token_type"] { type } else { nil }
        endsBy = document[path: "refresh_expires_in"].flatMap { AccessTokenExpiry(seconds: $0, now: now).end }
    }
}

extension TokenSet {
    /// The access token itself.
    var accessToken: Secret { Secret(bytes: Array(authorization.bytes.dropFirst(TokenResponse.bearerPrefix.count))) }
}

/// What a provider issued for an authorization code, and stated about the user.
package struct ProviderSignIn: Sendable, Unprintable {
    package var tokens: TokenSet
    /// What the provider stated. Its ``SessionProvenance/claims`` are the data of the user.
    package var provenance: SessionProvenance
    /// The user. The document is `{}`: the claims are in ``provenance`` and are stored once.
    package var user: UserProfile
    /// The end of the session at the provider; `nil` if it is unknown.
    package var endsBy: WallTime?
}

/// The token of an exchange (RFC 8693 §2.2.1).
package struct ExchangedToken: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the token.
    package var authorization: Secret
    /// When the token expires; `nil` if it is unknown.
    package var expiresAt: WallTime?
    /// When the token was issued.
    package var issuedAt: WallTime
}
