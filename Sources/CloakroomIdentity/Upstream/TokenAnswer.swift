import CloakroomCore

/// Parses the tokens in an upstream's response to a sign-in or a refresh.
enum TokenResponse {
    /// The maximum length of a token, in bytes.
    static let maxTokenLength = 16_384
    /// The prefix of an access token in `Authorization` (RFC 6750 §2.1).
    static let bearerPrefix = Array("Bearer ".utf8)

    /// - Parameter onInvalidLifetime: Called if the response has an invalid lifetime.
    /// - Returns: `nil` for an invalid response: not JSON, no access token, or a token that is not allowed in a header
    ///   field. The refresh token may be missing.
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
        // Allocates exactly the required size, because the value is kept as long as the session.
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

    /// Accepts visible ASCII only: other bytes could end the header field that contains the token.
    private static func token(_ value: JSONValue) -> [UInt8]? {
        guard case .string(let text) = value, (1...maxTokenLength).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        return Array(text.utf8)
    }
}
