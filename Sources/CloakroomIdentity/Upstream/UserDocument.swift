import CloakroomCore
import FoundationEssentials

/// What an upstream says about a user, as it is kept and given to that user.
///
/// The bytes are the upstream's own but for the white space between them, so numbers and the order of members survive.
enum UserDocument {
    /// The largest document that is kept, in bytes, once it is compact.
    static let limit = 16_384
    /// The document of a user of whom nothing may be shown.
    static let empty = Array("{}".utf8)
    /// Shorter tokens are not looked for: they might stand in a document by chance.
    private static let minSearchedTokenLength = 16

    /// Reads what an upstream answered.
    /// - Parameter tokens: All tokens that must not reach the client: those of the call that gave them, and those that
    ///   they replace, which may still be valid.
    /// - Returns: `nil` unless it is a JSON object within ``limit`` that contains none of the tokens: the document goes
    ///   to the client, and tokens do not.
    static func read(_ body: [UInt8], excluding tokens: [TokenSet]) -> [UInt8]? {
        guard let value = JSONValue(document: body), case .object = value else { return nil }
        let document = JSONMinifier.make(body)
        guard document.count <= limit, !contains(tokens, in: value, document) else { return nil }
        // A copy of the exact size: it is kept as long as the session.
        return document.withUnsafeBufferPointer(Array.init)
    }

    /// Whether a document that is kept already contains one of some tokens.
    static func contains(_ tokens: TokenSet, in document: [UInt8]) -> Bool {
        guard let value = JSONValue(document: document) else { return true }
        return contains([tokens], in: value, document)
    }

    /// Strings are compared decoded, for an escape (`\/`, `\u0061`) would hide a token from a comparison of bytes;
    /// member names as well as values. The bytes are compared too: a token of digits may be a number.
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

    /// What is known of a user whose upstream tells nothing: the address that they signed in with.
    static func fallback(from credentials: Credentials) -> [UInt8]? {
        guard let document = try? JSONEncoder().encode(["email": credentials.email]) else { return nil }
        return Array(document)
    }
}
