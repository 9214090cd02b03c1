package import CloakroomCore

/// A signed token in the compact form of a JWS (RFC 7515 §3.1), before its signature is verified.
///
/// Only the header is parsed. The payload stays closed until ``SignatureKeySet/verify(_:)`` returns it, so that claims
/// of an unverified token cannot be used by mistake, and a party without a key can only reach the parser of the header.
///
/// The header is read as narrowly as the gateway needs it: `alg`, `kid` and `typ`. Addresses of keys in the header (`jku`,
/// `x5u`, `x5c`) are not read, and `jwk` by ``DeviceProof`` and ``TokenProofs`` only (RFC 8725 §3.10).
package struct UnverifiedToken: Sendable {
    /// The maximum length in bytes.
    package static let maxLength = 16_384
    /// The maximum length of `kid` and `typ` in bytes.
    package static let maxNameLength = 1_024

    /// `alg`, one of the permitted algorithms.
    package let algorithm: SignatureAlgorithm
    /// `kid`; `nil` if the header has none.
    package let keyID: String?
    /// `typ`.
    package let type: TokenType
    /// `jwk`, the key that a device registers, or that of a proof; `nil` for none. No token of a provider is verified with it.
    let statedKey: JSONValue?
    /// The bytes that the signature covers: header and payload, encoded, with the dot between them (RFC 7515 §5.2).
    package let signedBytes: ArraySlice<UInt8>
    /// The signature, decoded.
    package let signature: [UInt8]
    /// The payload, decoded. Only for ``SignatureKeySet``, ``DeviceProof`` and ``TokenProofs``.
    let payload: [UInt8]

    /// Parses a token in time linear in its length.
    /// - Parameter algorithms: The permitted algorithms. The header chooses among them and cannot add to them.
    /// - Throws: ``TokenRejection``.
    package init(parsing token: [UInt8], algorithms: Set<SignatureAlgorithm>) throws(TokenRejection) {
        guard token.count <= Self.maxLength else { throw .tooLong }
        let parts = token.split(
            separator: UInt8(ascii: "."), maxSplits: 5, omittingEmptySubsequences: false)
        // The compact form of a JWE has five parts (RFC 7516 §3.1).
        guard parts.count != 5 else { throw .encrypted }
        guard parts.count == 3 else { throw .notCompact }
        guard let header = Base64URL.decode(parts[0]), let payload = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2])
        else { throw .invalidEncoding }
        // The parser rejects duplicate member names (RFC 7515 §4).
        guard case .object(let members) = JSONValue(document: header) else { throw .invalidHeader }
        guard members["crit"] == nil else { throw .criticalHeader }
        guard members["b64"] == nil else { throw .unencodedPayload }
        guard members["zip"] == nil else { throw .compressed }
        guard members["enc"] == nil else { throw .encrypted }
        guard case .string(let name)? = members["alg"] else { throw .invalidHeader }
        guard let algorithm = algorithms.first(where: { TokenClaims.isSame($0.rawValue, name) }) else {
            throw .algorithmNotAllowed
        }
        self.algorithm = algorithm
        self.keyID = try Self.name(members["kid"])
        self.type = TokenType(try Self.name(members["typ"]))
        self.statedKey = members["jwk"]
        self.signedBytes = token[parts[0].startIndex..<parts[1].endIndex]
        self.signature = signature
        self.payload = payload
    }

    private static func name(_ value: JSONValue?) throws(TokenRejection) -> String? {
        guard let value else { return nil }
        guard case .string(let text) = value, text.utf8.count <= maxNameLength else { throw .invalidHeader }
        return text
    }
}

/// A token whose signature is verified with a key of its provider. Its claims are the provider's, but not yet checked:
/// see ``IDTokenRules``, ``LogoutTokenRules`` and ``AccessTokenRules``.
package struct VerifiedToken: Sendable {
    package let algorithm: SignatureAlgorithm
    /// `typ`.
    package let type: TokenType
    package let claims: [JSONMemberName: JSONValue]

    /// - Precondition: The signature of the token is verified, or nothing but a rejection follows from it.
    init(_ token: UnverifiedToken) throws(TokenRejection) {
        try self.init(unverified: token.payload, algorithm: token.algorithm, type: token.type)
    }

    /// A token with these claims as if its signature were verified: only for tests and fuzzing outside of this file.
    /// - Throws: ``TokenRejection/invalidPayload``.
    package init(
        unverified payload: [UInt8], algorithm: SignatureAlgorithm, type: TokenType
    ) throws(TokenRejection) {
        guard case .object(let claims) = JSONValue(document: payload) else { throw .invalidPayload }
        self.algorithm = algorithm
        self.type = type
        self.claims = claims
    }
}
