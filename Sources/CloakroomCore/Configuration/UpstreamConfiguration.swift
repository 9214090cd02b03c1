public import CloakroomWire

/// An API behind the gateway.
public struct UpstreamConfiguration: Sendable, Equatable {
    /// The unique name used by routes, logs and metrics.
    public var name: String
    /// The targets: 1...64, each of them once. ``balance`` selects one for each request. Empty if ``isExternal``.
    public var targets: [UpstreamTargetConfiguration]
    /// The TLS configuration for `https` targets; `nil` is the system's trust roots and no client certificate.
    public var tls: UpstreamTLSConfiguration?
    /// The zone of the gateway; a target in another zone counts as twice as loaded. `nil` ignores the targets' zones.
    public var zone: String?
    /// The HTTP version of the connections.
    public var protocolVersion: UpstreamProtocol = .http1
    /// How host names are resolved.
    public var dns = DNSConfiguration()
    /// How a target is selected.
    public var balance = BalanceConfiguration()
    /// Active health checks; `nil` disables them.
    public var health: HealthCheckConfiguration?
    /// When a target that fails requests is ejected.
    public var eject = EjectionConfiguration()
    /// The maximum number of requests in flight.
    public var inFlight = InFlightConfiguration()
    /// Whether and how often a failed request is sent again.
    public var retry = RetryConfiguration()
    /// Whether the client's `Host` is forwarded; otherwise the target's own name is sent.
    public var preserveHost = true
    /// The API token that routes with `inject: [apiToken]` add, and that every sign-in call contains.
    public var apiToken: APIToken?
    /// The field in which the upstream expects tokens.
    public var bearer = BearerField()
    /// The exchange of credentials for tokens; `nil` if the upstream signs no users in.
    public var signIn: IdentityEndpointConfiguration?
    /// How tokens are refreshed.
    public var refresh: IdentityEndpointConfiguration?
    /// How tokens are revoked at sign-out.
    public var revoke: IdentityEndpointConfiguration?
    /// How the signed-in user is fetched.
    public var user: IdentityEndpointConfiguration?
    /// The name recorded in sessions whose tokens this upstream issued; `nil` is its ``name``. See ``source``.
    public var sessionSource: String?
    /// Limits of the connection pool.
    public var pool = PoolConfiguration()
    /// The fields with claims of the user that requests of a session get, at most 32.
    public var claimHeaders: [ClaimHeader] = []
    /// The signed statement about the user that requests of a session get; `nil` for none.
    public var assertion: AssertionConfiguration?
}

extension UpstreamConfiguration {
    package init(name: String, targets: [UpstreamTargetConfiguration]) {
        self.init(name: name, targets: targets, tls: nil)
    }

    /// Whether only another proxy forwards requests to it, and this gateway decides for that proxy.
    public var isExternal: Bool { targets.isEmpty }

    /// The source of the sessions whose tokens this upstream issues. Only used if the upstream signs users in.
    public var source: SessionSource { SessionSource(upstream: sessionSource ?? name) }
}

extension UpstreamConfiguration {
    /// The names of the fields with its tokens, without `Authorization`.
    public var tokenHeaders: [String] {
        [apiToken?.header, bearer.isAuthorization ? nil : bearer.header].compactMap(\.self)
    }
}

/// The field in which an upstream expects the access token, and the refresh token of a call without a body: by default
/// `Authorization: Bearer` (RFC 6750 §2.1).
public struct BearerField: Sendable, Equatable {
    /// The field name, a token of RFC 9110 §5.6.2.
    public var header = "Authorization"
    /// The word before the token; empty for the token alone.
    public var scheme = "Bearer"

    package init() {}

    /// Whether the field is `Authorization`.
    public var isAuthorization: Bool { header == "Authorization" }
    /// What precedes the token in the value.
    public var prefix: String { scheme.isEmpty ? "" : scheme + " " }
    /// Whether the value is that of ``TokenSet/authorization``, in the same field.
    public var isDefault: Bool { self == Self() }
}

/// A static key that an upstream requires in every request.
public struct APIToken: Sendable, Equatable {
    /// The field name, a token of RFC 9110 §5.6.2.
    public var header: String
    /// The field value: visible ASCII, no line breaks.
    public var value: Secret

    package init(header: String = "X-API-TOKEN", value: Secret) {
        self.header = header
        self.value = value
    }
}

/// Limits of the connections to one upstream, across all event loops.
public struct PoolConfiguration: Sendable, Equatable {
    /// The defaults of all keys.
    public static let defaults = Self()

    /// The maximum number of connections, 1...65535.
    public var maxConnections = 1_024
    /// The maximum number of requests that wait for a connection, 0...1,000,000; further requests are rejected with
    /// 503.
    public var maxPending = 1_024
    /// The maximum time that a request waits for a connection; then it is rejected with 503.
    public var pendingTimeout: Duration = .seconds(10)
    /// The maximum idle time of a connection.
    public var idleTimeout: Duration = .seconds(60)
    /// The age after which a connection is closed, so that DNS changes take effect. Not configurable.
    public var connectionLifetime: Duration = .seconds(3_600)
    /// The time after which a queue that was never empty is congested, 1 millisecond to 1 day: longer than a peak that a
    /// queue passes. Not configurable; `pendingTimeout` and `maxPending` are.
    public var congestedAfter: Duration = .milliseconds(500)
    /// The maximum time that a request waits in a congested queue, 1 millisecond to 1 day; then it is rejected with 503, as
    /// a lasting queue only delays all requests. Not configurable.
    public var congestedTimeout: Duration = .milliseconds(50)
    /// The maximum number of concurrent streams of an HTTP/2 connection, 1...1,000 (RFC 9113 §5.1.2).
    public var streams = Self.usualStreams
    /// The flow-control window of an HTTP/2 stream in bytes, 65,536...16,777,216 (RFC 9113 §6.9.2).
    public var streamWindow = 131_072

    /// The value of ``streams``, which is not configurable: an upstream announces a lower limit itself.
    public static let usualStreams = 100
}

/// A target of an upstream.
public struct UpstreamTargetConfiguration: Sendable, Hashable, CustomStringConvertible {
    /// The address to connect to.
    public enum Address: Sendable, Hashable {
        /// A host name or an IP address, and a port from 1 to 65535.
        case tcp(HostAndPort)
        /// The path of a Unix domain socket.
        case unixSocket(path: String)
    }

    /// How the connection is protected. The certificate of an `https` target is always verified.
    public var scheme: URIScheme
    /// The address to connect to.
    public var address: Address
    /// The share of requests relative to the other targets of the tier, 0...1,000; 0 drains the target.
    public var weight = 100
    /// 0...9: only the lowest tier with a usable target receives requests.
    public var tier = 0
    /// The zone; `nil` counts as the gateway's own.
    public var zone: String?

    package init(_ address: HostAndPort, scheme: URIScheme = .http) {
        self.scheme = scheme
        self.address = .tcp(address)
    }

    package init(unixSocket path: String) {
        scheme = .http
        address = .unixSocket(path: path)
    }

    /// `http://host:port`, `https://host:port` or `unix:/path`.
    public var description: String {
        switch address {
        case .tcp(let address): "\(scheme.name)://\(address)"
        case .unixSocket(let path): "unix:\(path)"
        }
    }

    /// Host name, IP address or path: `server.address` of the OpenTelemetry conventions.
    public var serverAddress: String {
        switch address {
        case .tcp(let address): address.host
        case .unixSocket(let path): path
        }
    }

    /// `server.port` of the OpenTelemetry conventions; `nil` for a Unix domain socket.
    public var serverPort: Int? {
        if case .tcp(let address) = address { address.port } else { nil }
    }

    /// The `Host` value if the client's own is not forwarded (RFC 9110 §7.2); `localhost` for a Unix domain socket.
    public var hostField: String {
        guard case .tcp(let address) = address else { return "localhost" }
        let usualPort = scheme == .http ? 80 : 443
        if address.port != usualPort { return address.description }
        return address.host.contains(":") ? "[\(address.host)]" : address.host
    }
}

/// The TLS configuration for an upstream. Certificate verification cannot be disabled.
public struct UpstreamTLSConfiguration: Sendable, Equatable {
    /// PEM file of the trust roots; `nil` uses the system's trust roots.
    public var caFile: String?
    /// The gateway's client certificate, which is presented on request; `nil` presents none.
    public var clientCertificate: CertificateConfiguration?
    /// The host name that is sent (SNI, RFC 6066 §3) and that the certificate must be issued for; `nil` uses the
    /// target's.
    public var serverName: String?

    package init(caFile: String? = nil, clientCertificate: CertificateConfiguration? = nil, serverName: String? = nil) {
        self.caFile = caFile
        self.clientCertificate = clientCertificate
        self.serverName = serverName
    }
}
