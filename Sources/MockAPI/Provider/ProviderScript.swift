/// The behaviour of a ``MockProvider``. The default is that of a correct provider.
///
/// All parts are `Codable` with optional members, for `PUT /__mock/script`.
public struct ProviderScript: Sendable, Codable, Equatable {
    /// `sub` of the user of the next sign-ins.
    public var subject = "jo"
    /// Further claims of that user by name, each as JSON text.
    public var claims = [
        "name": #""Jo Example""#, "email": #""jo@example.com""#, "email_verified": "true",
        "groups": #"["staff","a, b"]"#,
    ]
    /// Whether the authorization endpoint returns a page with a link to continue, so that the way back is a navigation
    /// that a user of the provider's site begins.
    public var asksUser = false
    /// The error code that the authorization endpoint returns instead of a code.
    public var denial: String?
    /// Changes of the query of the callback; values are texts, `extra` is appended as is. `iss` is present by default
    /// (RFC 9207).
    public var callback = MemberEdit()

    /// Changes of the discovery document.
    public var discovery = MemberEdit()
    /// Changes of the key set.
    public var keySet = KeySetEdit()
    /// Changes of ID tokens.
    public var idToken = TokenForgery()
    /// Changes of logout tokens.
    public var logoutToken = TokenForgery()
    /// Changes of successful responses of the token endpoint.
    public var tokenResponse = MemberEdit()
    /// The responses of the introspection endpoint as JSON texts, by token. All other tokens are inactive.
    public var introspections: [String: String] = [:]

    /// The faults by endpoint. The first one whose count is not used up applies.
    public var faults: [ProviderEndpoint: [EndpointFault]] = [:]
}

extension ProviderScript {
    /// Reads a script; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        try members.read(.subject, into: &subject)
        try members.read(.claims, into: &claims)
        try members.read(.asksUser, into: &asksUser)
        denial = try members.decodeIfPresent(String.self, forKey: .denial)
        try members.read(.callback, into: &callback)
        try members.read(.discovery, into: &discovery)
        try members.read(.keySet, into: &keySet)
        try members.read(.idToken, into: &idToken)
        try members.read(.logoutToken, into: &logoutToken)
        try members.read(.tokenResponse, into: &tokenResponse)
        try members.read(.introspections, into: &introspections)
        try members.read(.faults, into: &faults)
    }
}

/// Changes of the key set of a provider.
public struct KeySetEdit: Sendable, Codable, Equatable {
    /// Changes of each key of the provider, such as `without: ["kid"]`.
    public var keys = MemberEdit()
    /// Whether leading zeros of coordinates are omitted, against RFC 7518 §6.2.1.2. See `rotateKeys(hasShortCoordinate:)`.
    public var stripsZeros = false
    /// Further keys as JSON texts. They precede those of the provider.
    public var others: [String] = []
    /// Whether the RSA key of 1,024 bits of ``TokenForgery/Signature/weakKey`` is listed.
    public var hasWeakKey = false
}

extension KeySetEdit {
    /// Reads changes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        try members.read(.keys, into: &keys)
        try members.read(.stripsZeros, into: &stripsZeros)
        try members.read(.others, into: &others)
        try members.read(.hasWeakKey, into: &hasWeakKey)
    }
}

/// Changes of a signed token.
public struct TokenForgery: Sendable, Codable, Equatable {
    /// The signature of a token. The header has the matching `alg` and `kid`, unless ``TokenForgery/header`` changes it.
    public enum Signature: String, Sendable, Codable, CaseIterable {
        /// By the current key.
        case valid
        /// `alg` is `none`, the signature is empty.
        case none
        /// HS256 with the PEM of the public key as the secret.
        case publicKeyAsSecret
        /// By another key with the `kid` and algorithm of the current one.
        case otherKey
        /// By another key with a `kid` that is not listed.
        case unknownKey
        /// By the key before the last rotation; by the current one if there was none.
        case retiredKey
        /// By an RSA key of 1,024 bits, `kid` `weak`.
        case weakKey
        /// One bit of the signature is inverted.
        case corrupt
        /// The last part and its dot are missing.
        case missing
        /// Five parts, as of an encrypted token (RFC 7516 §3.1).
        case encrypted
    }

    /// Changes of the header.
    public var header = MemberEdit()
    /// Changes of the claims.
    public var claims = MemberEdit()
    /// Claims that are times, as seconds relative to the time of issue. Fractions are kept.
    public var times: [String: Double] = [:]
    /// The signature.
    public var signature = Signature.valid
    /// The minimum length of the token in bytes, at most 1 MiB; a claim `padding` fills it.
    public var minimumLength = 0
    /// The text that is sent instead of a token.
    public var replacement: String?
}

extension TokenForgery {
    /// Reads changes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        try members.read(.header, into: &header)
        try members.read(.claims, into: &claims)
        try members.read(.times, into: &times)
        try members.read(.signature, into: &signature)
        try members.read(.minimumLength, into: &minimumLength)
        replacement = try members.decodeIfPresent(String.self, forKey: .replacement)
    }
}

extension KeyedDecodingContainer {
    /// Reads a member if it is present.
    func read<Value: Decodable>(_ key: Key, into value: inout Value) throws {
        if let present = try decodeIfPresent(Value.self, forKey: key) { value = present }
    }
}
