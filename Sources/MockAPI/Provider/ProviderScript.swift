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
    /// Changes of ID tokens.
    public var idToken = TokenForgery()
    /// Changes of access tokens, for example of `client_id`.
    public var accessToken = TokenForgery()
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
        try members.read(.idToken, into: &idToken)
        try members.read(.accessToken, into: &accessToken)
        try members.read(.logoutToken, into: &logoutToken)
        try members.read(.tokenResponse, into: &tokenResponse)
        try members.read(.introspections, into: &introspections)
        try members.read(.faults, into: &faults)
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
    }

    /// Changes of the header.
    public var header = MemberEdit()
    /// Changes of the claims.
    public var claims = MemberEdit()
    /// Claims that are times, as seconds relative to the time of issue. Fractions are kept.
    public var times: [String: Double] = [:]
    /// The signature.
    public var signature = Signature.valid
}

extension TokenForgery {
    /// Reads changes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        try members.read(.header, into: &header)
        try members.read(.claims, into: &claims)
        try members.read(.times, into: &times)
        try members.read(.signature, into: &signature)
    }
}

extension KeyedDecodingContainer {
    /// Reads a member if it is present.
    func read<Value: Decodable>(_ key: Key, into value: inout Value) throws {
        if let present = try decodeIfPresent(Value.self, forKey: key) { value = present }
    }
}
