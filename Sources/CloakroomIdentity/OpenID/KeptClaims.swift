import CloakroomCore

/// The claims of a user that a session keeps: the configured ones, as a JSON object.
enum KeptClaims {
    /// The document of a user without claims.
    static let none = Array("{}".utf8)

    /// Selects the configured claims; see ``JSONValue/text(selecting:)``.
    ///
    /// Aggregated and distributed claims (`_claim_names`, OpenID Connect Core §5.6.2) are not followed: such a claim is
    /// absent.
    /// - Parameter tokens: What the provider issued. The claims are sent to the user's client and to upstreams, tokens are
    ///   not: claims that contain one are rejected.
    /// - Throws: `claimsTooLarge`, or `invalidResponse` for claims that contain a token.
    static func select(
        from claims: [JSONMemberName: JSONValue], _ kept: IdentityConfiguration.KeptClaims, without tokens: TokenSet
    ) throws(ResponseDefect) -> [UInt8] {
        let document = Array(JSONValue.object(claims).text(selecting: kept.claims).utf8)
        guard document.count <= max(kept.bytes, none.count) else { throw .claimsTooLarge }
        guard !UserDocument.contains(tokens, in: document) else { throw .invalidResponse }
        return document
    }
}
