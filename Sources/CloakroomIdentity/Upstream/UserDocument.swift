import CloakroomCore
import FoundationEssentials

/// An upstream's document about a user, as it is stored and sent to that user.
///
/// The bytes are the upstream's own without the white space between tokens, so numbers and the order of members are
/// preserved.
enum UserDocument {
    /// The maximum size of a stored document in bytes, after removing white space.
    static let limit = 16_384
    /// The document of a user without data to show.
    static let empty = Array("{}".utf8)
    /// Shorter tokens are not searched for: they might occur in a document by chance.
    private static let minSearchedTokenLength = 16

    /// Parses an upstream's response.
    /// - Parameter tokens: All tokens that must not reach the client: those of the response that issued them, and those
    ///   that they replace, which may still be valid.
    /// - Returns: `nil` unless the body is a JSON object within ``limit`` that contains none of the tokens: the
    ///   document is sent to the client, and tokens are not.
    static func read(_ body: [UInt8], excluding tokens: [TokenSet]) -> [UInt8]? {
        guard let value = JSONValue(document: body), case .object = value else { return nil }
        let document = JSONMinifier.make(body)
        guard document.count <= limit, !contains(tokens, in: value, document) else { return nil }
        // A copy of the exact size, because it is kept as long as the session.
        return document.withUnsafeBufferPointer(Array.init)
    }

    /// Whether a stored document contains one of the given tokens.
    static func contains(_ tokens: TokenSet, in document: [UInt8]) -> Bool {
        guard let value = JSONValue(document: document) else { return true }
        return contains([tokens], in: value, document)
    }

    /// Strings are compared decoded, because an escape (`\/`, `\u0061`) would hide a token from a comparison of bytes.
    /// Member names are compared as well as values. The bytes are compared too: a token of digits may be a number.
    private static func contains(_ tokens: [TokenSet], in value: JSONValue, _ document: [UInt8]) -> Bool {
        let secrets = tokens.flatMap { tokens in
            [Array(tokens.authorization.bytes.dropFirst(TokenResponse.bearerPrefix.count)), tokens.refreshToken?.bytes]
        }
        let patterns = Set(secrets.compactMap { $0 }).filter { $0.count >= minSearchedTokenLength }
            .map(BytePattern.init)
        return patterns.contains { pattern in
            pattern.occurs(in: document) || value.containsString { pattern.occurs(in: $0.utf8) }
        }
    }

    /// The fallback document if the upstream returns no user data: the address used for the sign-in.
    static func fallback(from credentials: Credentials) -> [UInt8]? {
        guard let document = try? JSONEncoder().encode(["email": credentials.email]) else { return nil }
        return Array(document)
    }
}
