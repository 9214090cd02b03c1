import CloakroomCore

/// Reads the tokens out of an upstream's answer to a sign-in or a renewal.
enum TokenResponse {
    /// The longest token that is kept, in bytes.
    static let maxTokenLength = 16_384
    /// What stands before an access token in `Authorization` (RFC 6750 §2.1).
    static let bearerPrefix = Array("Bearer ".utf8)

    /// - Parameter onInvalidLifetime: Is called if the answer has a lifetime that makes no sense.
    /// - Returns: `nil` for an answer that makes no sense: not JSON, no access token, or a token that could not be put into
    ///   a header field. A missing refresh token is the older dialect, and fine.
    static func read(
        _ body: [UInt8], configuration: IdentityEndpointConfiguration, now: Timestamp,
        onInvalidLifetime: () -> Void = {}
    ) -> TokenSet? {
        guard let document = JSONValue(document: body),
            let accessToken = document[path: configuration.accessToken].flatMap(token)
        else { return nil }
        var refreshToken: [UInt8]?
        if let value = document[path: configuration.refreshToken] {
            guard let token = token(value) else { return nil }
            refreshToken = token
        }
        var authorization: [UInt8] = []
        // Exactly as large as it has to be: it is kept as long as the session.
        authorization.reserveCapacity(bearerPrefix.count + accessToken.count)
        authorization += bearerPrefix
        authorization += accessToken
        let lifetime = lifetime(of: accessToken, document: document, configuration: configuration, now: now)
        if lifetime == .invalid { onInvalidLifetime() }
        return TokenSet(
            authorization: Secret(bytes: authorization), refreshToken: refreshToken.map(Secret.init(bytes:)),
            accessTokenExpiresAt: lifetime.end, obtainedAt: now)
    }

    private static func lifetime(
        of accessToken: [UInt8], document: JSONValue, configuration: IdentityEndpointConfiguration, now: Timestamp
    ) -> AccessTokenExpiry {
        if let path = configuration.expiresIn, let value = document[path: path] {
            return AccessTokenExpiry(seconds: value, now: now)
        }
        return AccessTokenExpiry(jwt: accessToken, now: now)
    }

    /// Visible ASCII only: anything else could end the field that the token is put into.
    private static func token(_ value: JSONValue) -> [UInt8]? {
        guard case .string(let text) = value, (1...maxTokenLength).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        return Array(text.utf8)
    }
}
