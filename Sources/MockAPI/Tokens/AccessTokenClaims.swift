/// The claims of an access token (RFC 7519 §4.1), with one private claim.
struct AccessTokenClaims: Codable, Equatable, Sendable {
    /// The account's id.
    let sub: String
    /// The time of issue, in seconds since 1970.
    let iat: Int
    /// The expiry, in seconds since 1970. Tokens of the older API have none.
    let exp: Int?
    /// A unique id.
    let jti: String
    /// The era of issue; see `AccessTokens.rejectAllIssued()`.
    let era: Int
}
