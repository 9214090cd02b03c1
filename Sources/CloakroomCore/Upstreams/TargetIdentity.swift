public import CloakroomWire

/// What makes two configured or resolved targets the same one, so that its state survives a reload and a DNS change.
public struct TargetIdentity: Sendable, Hashable {
    /// The name of the upstream.
    public let upstream: String
    /// The scheme of the connections.
    public let scheme: URIScheme
    /// The configured host name or IP address; the path of a Unix domain socket.
    public let host: String
    /// The port; 0 for a Unix domain socket.
    public let port: Int
    /// The resolved IP address; `nil` if the name as a whole is the target, and for a Unix domain socket.
    public let address: String?
    /// The name that the certificate is verified for; `nil` without TLS.
    public let tlsName: String?

    package init(
        upstream: String, scheme: URIScheme, host: String, port: Int, address: String? = nil, tlsName: String? = nil
    ) {
        self.upstream = upstream
        self.scheme = scheme
        self.host = host
        self.port = port
        self.address = address
        self.tlsName = tlsName
    }
}

/// A target that an ``UpstreamBoard`` is to have.
public struct TargetSpecification: Sendable, Hashable {
    /// Which target.
    public var identity: TargetIdentity
    /// The share of requests relative to the other targets of its tier, 0...1000; 0 drains it.
    public var weight: Int
    /// The tier, 0...9. The lowest one with a usable target is used.
    public var tier: Int
    /// Whether it is in another zone than the gateway, which doubles its cost.
    public var isOtherZone: Bool
    /// The index of the target in the configuration, which several addresses of one name share.
    public var configurationIndex: Int
    /// Whether it starts down and needs a passed check first. Only for targets without state.
    public var startsDown: Bool

    package init(
        _ identity: TargetIdentity, weight: Int = 100, tier: Int = 0, isOtherZone: Bool = false,
        configurationIndex: Int = 0, startsDown: Bool = false
    ) {
        self.identity = identity
        self.weight = weight
        self.tier = tier
        self.isOtherZone = isOtherZone
        self.configurationIndex = configurationIndex
        self.startsDown = startsDown
    }
}
