package import CloakroomCore

/// Entry points for fuzzing the claims of tokens, without the signature that protects them otherwise.
package enum OpenIDWire {
    /// A token with these claims, as if its signature had been verified.
    /// - Throws: ``TokenRejection/invalidPayload``.
    package static func token(
        payload: [UInt8], algorithm: SignatureAlgorithm, type: TokenType
    ) throws(TokenRejection) -> VerifiedToken {
        try VerifiedToken(payload: payload, algorithm: algorithm, type: type)
    }
}
