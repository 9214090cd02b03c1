/// Where the gateway reaches a provider, if not at the URLs of its issuer and its metadata.
///
/// The issuer, the endpoints that browsers are sent to and the audience of client assertions stay the public ones.
public struct ProviderEndpoints: Sendable, Equatable {
    /// The `Host` of calls to ``base``.
    public enum Host: String, Sendable, Hashable, CaseIterable {
        /// That of ``base``.
        case base
        /// That of the issuer, for a provider that serves several names.
        case issuer
    }

    /// The endpoints of a provider whose metadata are not fetched.
    public struct Fixed: Sendable, Equatable {
        /// Where browsers begin a login.
        public var authorization: EndpointURL
        /// The token endpoint.
        public var token: EndpointURL
        /// The key set.
        public var keys: EndpointURL
        /// The userinfo endpoint; `nil` for none.
        public var userInfo: EndpointURL?
        /// The revocation endpoint; `nil` for none.
        public var revocation: EndpointURL?
        /// The introspection endpoint; `nil` for none.
        public var introspection: EndpointURL?
        /// The endpoint of pushed authorization requests; `nil` for none.
        public var pushed: EndpointURL?
        /// Where a sign-out continues; `nil` for none.
        public var endSession: EndpointURL?

        package init(authorization: EndpointURL, token: EndpointURL, keys: EndpointURL) {
            self.authorization = authorization
            self.token = token
            self.keys = keys
        }
    }

    /// The origin that calls to the issuer's origin go to; `nil` for the issuer's own.
    public var base: WebOrigin?
    /// The `Host` of these calls.
    public var host: Host = .base
    /// The endpoints; `nil` to fetch the metadata.
    public var fixed: Fixed?

    package init() {}

    /// The URL of an endpoint under its public name: one at ``base`` is moved to the origin of the issuer.
    /// - Returns: `nil` if it is too long then.
    package func publicURL(_ url: EndpointURL, issuer: String) -> EndpointURL? {
        guard url.origin == base, let origin = EndpointURL(issuer)?.origin else { return url }
        return EndpointURL(origin.description + url.target)
    }

    /// Whether the gateway may send secrets to an endpoint. With ``base``, only the issuer's origin is called.
    /// - Parameter url: A value of ``publicURL(_:issuer:)``.
    package func permitsCall(to url: EndpointURL, issuer: String) -> Bool {
        base == nil || url.origin == EndpointURL(issuer)?.origin
    }
}
