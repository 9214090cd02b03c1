import CloakroomCore

/// Parses the tokens in an upstream's response to a sign-in or a refresh.
enum TokenResponse {
    /// The maximum length of a token, in bytes.
    static let maxTokenLength = 16_384
    /// The prefix of an access token in `Authorization` (RFC 6750 §2.1).
    static let bearerPrefix = Array("Bearer ".utf8)

    /// - Parameter onInvalidLifetime: Called if the response has an invalid lifetime.
    /// - Returns: `nil` for an invalid response: not JSON, no access token, or a token that is not allowed in a header
    ///   field. The refresh token may be missing. With OAuth also for another token type than `bearer`, in any case (RFC
    ///   6749 §5.1, §7.1): such a token is useless, or a danger, in `Authorization: Bearer`.
    static func read(
        _ body: [UInt8], configuration: IdentityEndpointConfiguration, now: WallTime,
        onInvalidLifetime: () -> Void = {}
    ) -> TokenSet? {
        guard let document = JSONValue(document: body),
            configuration.credentials != .oauth || isBearer(document),
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

    /// Why ``read(_:configuration:now:onInvalidLifetime:)`` rejects a body.
    /// - Parameter section: The section of the configuration: `signIn` or `refresh`.
    static func defect(
        of body: [UInt8], configuration: IdentityEndpointConfiguration, section: String
    ) -> IdentityCallFailure.Defect {
        guard let document = JSONValue(document: body) else { return IdentityCallFailure.Defect("not_json") }
        func member(_ reason: String, _ key: String?, _ path: String) -> IdentityCallFailure.Defect {
            IdentityCallFailure.Defect(
                reason, key: key.map { "\(section).\($0)" }, expected: path,
                found: IdentityCallFailure.Defect.names(in: document, along: path))
        }
        if configuration.credentials == .oauth, !isBearer(document) {
            return member("token_type_not_bearer", nil, "token_type")
        }
        guard let accessToken = document[path: configuration.accessToken] else {
            return member("member_missing", "accessToken", configuration.accessToken)
        }
        guard token(accessToken) != nil else {
            return member("member_not_a_token", "accessToken", configuration.accessToken)
        }
        return member("member_not_a_token", "refreshToken", configuration.refreshToken)
    }

    private static func isBearer(_ document: JSONValue) -> Bool {
        guard case .string(let type) = document[path: "token_type"] else { return false }
        return type.utf8.lazy.map { $0 | 0x20 }.elementsEqual("bearer".utf8)
    }

    private static func lifetime(
        of accessToken: [UInt8], document: JSONValue, configuration: IdentityEndpointConfiguration, now: WallTime
    ) -> AccessTokenExpiry {
        if let path = configuration.expiresIn, let value = document[path: path] {
            return AccessTokenExpiry(seconds: value, now: now)
        }
        return AccessTokenExpiry(jwt: accessToken, now: now)
    }

    /// Accepts visible ASCII only: other bytes could end the header field that contains the token.
    private static func token(_ value: JSONValue) -> [UInt8]? {
        guard case .string(let text) = value, (1...maxTokenLength).contains(text.utf8.count) else { return nil }
        let bytes = Array(text.utf8)
        return bytes.allSatisfy { (0x21...0x7e).contains($0) } ? bytes : nil
    }
}

/// The expiry of an access token, as a token response specifies it.
///
/// An invalid lifetime specifies nothing: the token is used until the upstream rejects it. The token is not treated as
/// expired either, because each request would then refresh the tokens.
enum AccessTokenExpiry: Equatable {
    /// The token expires at this time, which is in the future.
    case ends(WallTime)
    /// The response specifies no lifetime.
    case unspecified
    /// The response has an invalid lifetime: not a number, not above zero, or beyond ``latest``.
    case invalid

    /// The latest valid expiry: the year 10000, in seconds since the epoch.
    private static let latest = 253_402_300_800.0
    /// The maximum length of a text that is parsed as a number, in bytes.
    private static let maxTextLength = 32

    /// Parses the lifetime in seconds of a token response (RFC 6749 §5.1): a number, or a string that holds one.
    init(seconds value: JSONValue, now: WallTime) {
        self.init(atSecond: Self.number(value).map { Double(now.milliseconds) / 1_000 + $0 }, now: now)
    }

    /// Parses `exp` of a JWT (RFC 7519 §4.1.4). The signature is not verified: the upstream does that for each request.
    /// Without a valid JWT or an `exp` claim the result is ``unspecified``.
    init(jwt token: [UInt8], now: WallTime) {
        let parts = token.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 3, let payload = Base64URL.decode(parts[1]),
            case .object(let claims) = JSONValue(document: payload), let exp = claims["exp"], exp != .null
        else {
            self = .unspecified
            return
        }
        self.init(atSecond: Self.number(exp), now: now)
    }

    private init(atSecond second: Double?, now: WallTime) {
        guard let second, second.isFinite, second > 0, second < Self.latest else {
            self = .invalid
            return
        }
        let end = WallTime(milliseconds: Int64(second * 1_000))
        self = end > now ? .ends(end) : .invalid
    }

    /// The expiry; `nil` if it is unknown.
    var end: WallTime? {
        if case .ends(let end) = self { end } else { nil }
    }

    private static func number(_ value: JSONValue) -> Double? {
        switch value {
        case .number(let number): return number
        case .string(let text):
            guard text.utf8.count <= maxTextLength, case .number(let number) = JSONValue(document: Array(text.utf8))
            else { return nil }
            return number
        case .null, .bool, .array, .object: return nil
        }
    }
}
