/// What an access token says (RFC 7519 §4.1), with one private claim.
struct AccessTokenClaims: Codable, Equatable, Sendable {
    /// The account's id.
    let sub: String
    /// When it was issued, in seconds since 1970.
    let iat: Int
    /// From when on it is not good any more, in seconds since 1970. The older dialect's tokens have none.
    let exp: Int?
    /// Different for every token.
    let jti: String
    /// The era it was issued in; see `AccessTokens.rejectAllIssued()`.
    let era: Int
}
