/// Everything a gateway is told, validated: what configuration becomes and what the rest of the gateway is built from.
public struct GatewayConfiguration: Sendable, Equatable {
    /// Where clients connect. At least one.
    public var listeners: [ListenerConfiguration]
    /// Where operators connect; `nil` switches the admin listener off.
    public var admin: AdminConfiguration?
    /// The upstreams. Routes and ``accounts`` name them by index.
    public var upstreams: [UpstreamConfiguration]
    /// The routes, in the order of the file.
    public var routes: [Route]
    /// The gateway's own endpoints for signing in and out.
    public var accounts: AccountsConfiguration
    /// Sessions and their cookie.
    public var session: SessionConfiguration
    /// Requests that other sites make browsers send.
    public var crossSite: CrossSiteConfiguration
    /// Sizes and numbers at which a request is refused.
    public var limits: LimitsConfiguration
    /// Times after which a wait is over.
    public var timeouts: TimeoutsConfiguration
    /// Peers whose `Forwarded`, `X-Forwarded-*`, `X-Request-Id` and `traceparent` are believed. Empty by default.
    public var trustedPeers: [CIDRBlock]
    /// Logs.
    public var logging: LoggingConfiguration
    /// Traces.
    public var tracing: TracingConfiguration
    /// How many event loops serve connections; `nil` takes one for each core.
    public var eventLoops: Int?

    /// Makes a plan. What has a safe default may be left out.
    public init(
        listeners: [ListenerConfiguration], admin: AdminConfiguration? = nil, upstreams: [UpstreamConfiguration],
        routes: [Route],
        accounts: AccountsConfiguration = AccountsConfiguration(),
        session: SessionConfiguration = SessionConfiguration(),
        crossSite: CrossSiteConfiguration = CrossSiteConfiguration(),
        limits: LimitsConfiguration = LimitsConfiguration(), timeouts: TimeoutsConfiguration = TimeoutsConfiguration(),
        trustedPeers: [CIDRBlock] = [], logging: LoggingConfiguration = LoggingConfiguration(),
        tracing: TracingConfiguration = TracingConfiguration(), eventLoops: Int? = nil
    ) {
        self.listeners = listeners
        self.admin = admin
        self.upstreams = upstreams
        self.routes = routes
        self.accounts = accounts
        self.session = session
        self.crossSite = crossSite
        self.limits = limits
        self.timeouts = timeouts
        self.trustedPeers = trustedPeers
        self.logging = logging
        self.tracing = tracing
        self.eventLoops = eventLoops
    }
}

/// A host and a port to listen on or to connect to.
public struct HostAndPort: Sendable, Hashable, CustomStringConvertible {
    /// A host name or an IP address without brackets.
    public var host: String
    /// 0...65535; 0 lets the system choose where one listens.
    public var port: Int

    /// Makes an address.
    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, `[IPv6]:port`.
    /// - Returns: `nil` for anything else.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        var host = text[..<colon]
        let digits = text[text.index(after: colon)...]
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = UInt16(digits) else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard IPAddress.bytes(of: String(host))?.count == 16 else { return nil }
        } else {
            guard !host.contains(":"), Authority.isValid(Array(host.utf8).span) else { return nil }
        }
        self.init(host: String(host), port: Int(port))
    }

    /// `host:port`, with brackets around an IPv6 address.
    public var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// The admin listener.
public struct AdminConfiguration: Sendable, Equatable {
    /// Where it listens. Loopback unless somebody decides otherwise.
    public var address: HostAndPort
    /// What an operator shows to end sessions (`Authorization: Bearer`); `nil` switches that off.
    public var token: Secret?

    /// Makes an admin plan.
    public init(address: HostAndPort = HostAndPort(host: "127.0.0.1", port: 9464), token: Secret? = nil) {
        self.address = address
        self.token = token
    }
}
