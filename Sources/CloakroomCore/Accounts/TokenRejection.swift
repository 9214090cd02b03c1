/// Why a token of an OpenID Provider is rejected.
///
/// The raw value is for logs and metrics; it is never sent to a client. A rejected token changes nothing: no session is
/// created, refreshed or ended.
public enum TokenRejection: String, Error, Sendable, Hashable, CaseIterable {
    // The form (RFC 7515 §3.1, §5.2).
    case tooLong = "too_long"
    case notCompact = "not_compact"
    case invalidEncoding = "invalid_encoding"
    case invalidHeader = "invalid_header"
    case invalidPayload = "invalid_payload"
    case algorithmNotAllowed = "algorithm_not_allowed"
    case criticalHeader = "critical_header"
    case unencodedPayload = "unencoded_payload"
    case compressed
    case encrypted
    case wrongType = "wrong_type"

    // The signature.
    case unknownKey = "unknown_key"
    case ambiguousKey = "ambiguous_key"
    case invalidSignature = "invalid_signature"
    case invalidSignatureWithoutKeyID = "invalid_signature_without_kid"

    // The claims of every token.
    case wrongIssuer = "wrong_issuer"
    case wrongAudience = "wrong_audience"
    case otherAudience = "other_audience"
    case wrongAuthorizedParty = "wrong_authorized_party"
    case invalidExpiry = "invalid_expiry"
    case expired
    case invalidIssuedAt = "invalid_issued_at"
    case issuedTooEarly = "issued_too_early"
    case issuedInFuture = "issued_in_future"
    case invalidNotBefore = "invalid_not_before"
    case notYetValid = "not_yet_valid"
    case invalidSubject = "invalid_subject"
    case invalidSessionID = "invalid_sid"

    // ID tokens.
    case wrongNonce = "wrong_nonce"
    case wrongAccessTokenHash = "wrong_at_hash"
    case invalidAuthenticationTime = "invalid_auth_time"
    case missingAuthenticationTime = "missing_auth_time"
    case invalidContextClass = "invalid_acr"

    // ID tokens of a refresh.
    case otherSubject = "other_subject"
    case otherAuthenticationTime = "other_auth_time"

    // Logout tokens.
    case invalidEvents = "invalid_events"
    case nonceInLogoutToken = "nonce_in_logout_token"
    case noSubjectOrSession = "no_subject_or_sid"
    case invalidTokenID = "invalid_jti"

    // Access tokens of clients.
    case ownToken = "own_token"
    case otherClient = "other_client"
    case expiresTooLate = "expires_too_late"
    case invalidScope = "invalid_scope"
    case senderConstrained = "sender_constrained"
    case notSenderConstrained = "not_sender_constrained"
    case invalidProof = "invalid_proof"
    case repeatedProof = "repeated_proof"
    case inactive

    /// Whether newer keys of the provider might verify the token: then the key set is fetched, within the limits of
    /// `KeySetSchedule`, and the token is checked once more.
    public var suggestsOtherKeys: Bool {
        switch self {
        case .unknownKey, .ambiguousKey, .invalidSignatureWithoutKeyID: true
        default: false
        }
    }

    /// The first thing that an operator should check.
    public var hint: StaticString {
        switch self {
        case .tooLong: "the token is too long; request fewer scopes or claims at the provider"
        case .notCompact, .invalidEncoding, .invalidHeader, .invalidPayload:
            "the provider must send a signed JWT in compact form with unique member names"
        case .algorithmNotAllowed:
            "sign ID tokens with RS256, PS256, ES256 or EdDSA at the provider; `algorithms` can add others, but not HMAC"
        case .criticalHeader, .unencodedPayload, .compressed:
            "turn off header extensions (crit, b64, zip) for this client at the provider"
        case .encrypted: "turn off token encryption for this client at the provider"
        case .wrongType: "the provider sent another kind of token"
        case .unknownKey, .ambiguousKey:
            "check that the provider publishes the signing key with its kid, kty and alg at jwks_uri"
        case .invalidSignature, .invalidSignatureWithoutKeyID:
            "the token was forged, or the provider changed a key without a new kid"
        case .wrongIssuer: "compare `issuer` with the provider's issuer byte for byte"
        case .wrongAudience, .otherAudience, .wrongAuthorizedParty:
            "the token was issued for another client, or for none; check `client.id` and its audience at the provider"
        case .invalidExpiry, .expired, .invalidIssuedAt, .issuedTooEarly, .issuedInFuture, .invalidNotBefore,
            .notYetValid:
            "check the clocks of the gateway and the provider, and `clockSkew`"
        case .invalidSubject: "the provider must send sub with 1 to 255 visible ASCII characters"
        case .invalidSessionID: "the provider must send sid with 1 to 1,024 bytes, or none"
        case .wrongNonce: "the token belongs to another sign-in"
        case .wrongAccessTokenHash: "the ID token belongs to another access token"
        case .invalidAuthenticationTime, .missingAuthenticationTime:
            "the provider must send auth_time where max_age is requested"
        case .invalidContextClass: "the provider must send acr as a string, or none"
        case .otherSubject: "the provider changed the user of a session during a refresh"
        case .otherAuthenticationTime: "the provider changed auth_time during a refresh"
        case .invalidEvents, .nonceInLogoutToken, .noSubjectOrSession, .invalidTokenID:
            "the token is not a logout token of OpenID Connect Back-Channel Logout 1.0"
        case .ownToken: "a token that was issued to the gateway is used elsewhere: find the leak, and revoke the token"
        case .otherClient, .expiresTooLate, .invalidScope, .senderConstrained, .notSenderConstrained:
            "compare the token with `accessTokens` of the identity"
        case .invalidProof, .repeatedProof:
            "compare htu with `publicURL`, and htm, ath and the key with the request; each request needs a new jti"
        case .inactive: "the token has expired, was revoked, or is of another provider"
        }
    }
}
