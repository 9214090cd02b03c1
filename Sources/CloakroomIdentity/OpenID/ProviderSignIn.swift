package import CloakroomCore

/// What a provider issued for an authorization code, and stated about the user.
package struct ProviderSignIn: Sendable, Unprintable {
    /// The tokens.
    package var tokens: TokenSet
    /// What the provider stated. Its ``SessionProvenance/claims`` are the data of the user.
    package var provenance: SessionProvenance
    /// The user. The document is `{}`: the claims are in ``provenance`` and are stored once.
    package var user: UserProfile
    /// The end of the session at the provider; `nil` if it is unknown.
    package var endsBy: Timestamp?
}

/// The token of an exchange (RFC 8693 §2.2.1).
package struct ExchangedToken: Sendable, Equatable {
    /// The value of the `Authorization` field: `Bearer`, a space, the token.
    package var authorization: Secret
    /// When the token expires; `nil` if it is unknown.
    package var expiresAt: Timestamp?
    /// When the token was issued.
    package var issuedAt: Timestamp
}
