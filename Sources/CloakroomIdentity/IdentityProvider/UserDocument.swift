import CloakroomCore

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

    /// Why ``read(_:excluding:)`` rejects a body.
    static func defect(of body: [UInt8]) -> IdentityCallFailure.Defect {
        guard let value = JSONValue(document: body) else { return IdentityCallFailure.Defect("not_json") }
        guard case .object = value else { return IdentityCallFailure.Defect("not_an_object") }
        let found = IdentityCallFailure.Defect.names(in: value, along: "")
        return IdentityCallFailure.Defect(
            JSONMinifier.make(body).count > limit ? "too_large" : "contains_token", found: found)
    }

    /// Whether a stored document contains one of the given tokens.
    static func contains(_ tokens: TokenSet, in document: [UInt8]) -> Bool {
        guard let value = JSONValue(document: document) else { return true }
        return contains([tokens], in: value, document)
    }

    /// Strings are compared decoded, because an escape (`\/`, `\u0061`) would hide a token from a comparison of bytes.
    /// Member names are compared as well as values. The bytes are compared too: a token of digits may be a number. They
    /// contain each string as it is unless there is an escape.
    private static func contains(_ tokens: [TokenSet], in value: JSONValue, _ document: [UInt8]) -> Bool {
        let secrets = tokens.flatMap { tokens in
            [Array(tokens.authorization.bytes.dropFirst(TokenResponse.bearerPrefix.count)), tokens.refreshToken?.bytes]
        }
        // No string is longer than the document, decoded or not.
        let patterns = secrets.compactMap { $0 }
            .filter { (minSearchedTokenLength...max(minSearchedTokenLength, document.count)).contains($0.count) }
            .map(BytePattern.init)
        let hasEscapes = document.contains(UInt8(ascii: "\\"))
        return patterns.contains { pattern in
            pattern.occurs(in: document)
                || hasEscapes && value.containsString { pattern.occurs(in: Array($0.utf8)) }
        }
    }

    /// The fallback document if the upstream returns no user data: the address or the name used for the sign-in.
    static func fallback(from credentials: Credentials) -> [UInt8] {
        let member = credentials.kind == .email ? "email" : "name"
        return Array(#"{"\#(member)":\#(JSONString.quoted(credentials.name))}"#.utf8)
    }
}

/// Derives the account at an upstream from a user's document.
enum UserIdentity {
    /// The maximum length of an id, in bytes.
    static let maxIDLength = 255

    /// The account by the upstream's user id, at the path that ``IdentityEndpointConfiguration/userID`` names.
    /// - Returns: `nil` if there is no `user` call, or no id that can be compared exactly: neither a string of 1 to
    ///   ``maxIDLength`` bytes nor an integer up to 2^53 - 1. Then the typed name is the account.
    static func account(in document: [UInt8], _ upstream: UpstreamConfiguration) -> AccountName? {
        guard let configuration = upstream.user, let value = JSONValue(document: document)?[path: configuration.userID],
            let id = text(of: value)
        else { return nil }
        return AccountName(userID: id, source: upstream.source)
    }

    /// A number and a string of the same digits are one id: an upstream that changes its format means the same user.
    private static func text(of value: JSONValue) -> String? {
        switch value {
        case .string(let text): (1...maxIDLength).contains(text.utf8.count) ? text : nil
        case .number(let number): JSONValue.exactText(of: number)
        default: nil
        }
    }
}

/// The bytes of a JSON document without the white space between its tokens. All other bytes are unchanged.
private enum JSONMinifier {
    /// - Parameter document: A document that ``JSONValue/init(document:)`` accepts.
    static func make(_ document: [UInt8]) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(document.count)
        var isInString = false
        var isEscaped = false
        for byte in document {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else {
                switch byte {
                case 0x20, 0x09, 0x0a, 0x0d: continue
                case UInt8(ascii: "\""): isInString = true
                default: break
                }
            }
            result.append(byte)
        }
        return result
    }
}
