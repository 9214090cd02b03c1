import CloakroomCore
import FoundationEssentials

/// What an upstream says about a user, as it is kept and given to that user.
///
/// The bytes are the upstream's own but for the white space between them, so numbers and the order of members survive.
enum UserDocument {
    /// The largest document that is kept, in bytes, once it is compact.
    static let limit = 16_384
    /// Shorter tokens are not looked for: they might stand in a document by chance.
    private static let shortestTokenLookedFor = 16

    /// Reads what an upstream answered.
    /// - Returns: `nil` unless it is a JSON object within ``limit`` that has none of the tokens in it: the document goes to
    ///   the client, and tokens do not.
    static func read(_ body: [UInt8], tokens: SessionTokens) -> [UInt8]? {
        guard case .object = JSONValue(document: body), let document = CompactJSON.make(body),
            document.count <= limit, document.first == UInt8(ascii: "{")
        else { return nil }
        let accessToken = tokens.authorization.bytes.dropFirst(TokenAnswer.bearerPrefix.count)
        let secrets = [accessToken, tokens.refreshToken?.bytes[...]].compactMap { $0 }
        guard secrets.allSatisfy({ $0.count < shortestTokenLookedFor || !document.contains($0) }) else { return nil }
        // A copy of the exact size: it is kept as long as the session.
        return document.withUnsafeBufferPointer(Array.init)
    }

    /// What is known of a user whose upstream tells nothing: the address that they signed in with.
    static func made(from credentials: Credentials) -> [UInt8]? {
        guard let document = try? JSONEncoder().encode(["email": credentials.email]) else { return nil }
        return Array(document)
    }
}
