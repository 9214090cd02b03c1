import CloakroomWire

/// The validated configuration of a gateway, from which all its parts are built.
///
/// Folder `Configuration/`: the validated values of all keys, by section, with their defaults. `CloakroomConfig`
/// creates them; all other modules receive them.
public struct GatewayConfiguration: Sendable, Equatable {
    /// The defaults of all keys, without the required listeners, upstreams and routes.
    public static let defaults = Self()

    /// The listeners for clients. At least one.
    public var listeners: [ListenerConfiguration] = []
    /// The admin listener for operators; `nil` disables it.
    public var admin: AdminConfiguration?
    /// The providers that sign users in. Empty by default.
    public var identities: [IdentityConfiguration] = []
    /// The upstreams. Routes and ``accounts`` name them by index.
    public var upstreams: [UpstreamConfiguration] = []
    /// The routes, in the order of the file.
    public var routes: [Route] = []
    /// The rate limits, in the order of the file, at most 32. ``limits`` and routes refer to them by name.
    public var rateLimits: [RateLimit] = []
    /// The fields that change in all responses.
    public var responseFields = ResponseFieldsConfiguration()
    /// The gateway's own endpoints for sign-in and sign-out. With ``sites``, `identities` and `upstream` are those of all
    /// sites, and `publicURL` is that of the default one; see ``site(_:)``.
    public var accounts = AccountsConfiguration()
    /// The sites, the default one first, then at most 16 in the order of the file; empty if there is only the default one.
    public var sites: [SiteConfiguration] = []
    /// The pages that the gateway shows to users.
    public var pages = PagesConfiguration()
    /// Sessions and their cookie.
    public var session = SessionConfiguration()
    /// Protection against cross-site requests.
    public var crossSite = CrossSiteConfiguration()
    /// Limits beyond which a request is rejected.
    public var limits = LimitsConfiguration()
    /// Timeouts.
    public var timeouts = TimeoutsConfiguration()
    /// Peers whose `Forwarded`, `X-Forwarded-*`, `X-Request-Id` and `traceparent` fields are trusted. Empty by default.
    public var trustedProxies: [CIDRBlock] = []
    /// Logs.
    public var logging = LoggingConfiguration()
    /// Metrics.
    public var metrics = MetricsConfiguration()
    /// Traces.
    public var tracing = TracingConfiguration()
    /// The number of event loops; `nil` is one for each core.
    public var eventLoops: Int?
}

/// A host and a port to listen on or to connect to.
public struct HostAndPort: Sendable, Hashable, CustomStringConvertible {
    /// A host name or an IP address without brackets.
    public var host: String
    /// 0...65535; for a listener, 0 lets the system select a port.
    public var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Parses `host:port`, `[IPv6]:port`.
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

    /// Whether a text is an IP address without brackets, or a possible host name, or empty.
    package static func isHost(_ host: String) -> Bool {
        if host.contains(":") { return IPAddress.bytes(of: host) != nil }
        // The maximum length of a host name (RFC 1035 §2.3.4); metrics contain it.
        return host.utf8.count <= 253
            && host.utf8.allSatisfy { Byte.isLetterOrDigit($0) || "-._".utf8.contains($0) }
    }

    /// `host:port`, with brackets around an IPv6 address.
    public var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}

/// Protection against requests that other sites make browsers send.
public struct CrossSiteConfiguration: Sendable, Equatable {
    /// Other origins from which unsafe requests with a cookie are accepted: `https://host` or `https://host:port`, as
    /// browsers write them (RFC 6454 §6.2).
    public var trustedOrigins: [String] = []
    /// A static field that every request with a session cookie must contain; `nil` for none. Other sites cannot set it
    /// without a preflight (the Fetch standard, CORS-preflight). Its name is a token (RFC 9110 §5.6.2), and its value
    /// visible ASCII.
    public var requiredField: NamedValue<String>?
    /// Origins whose pages may read responses, cookies included; empty disables CORS. Trusted for unsafe requests too.
    public var corsOrigins: [String] = []
}

/// A name with its value: of a field, a member or an attribute.
public struct NamedValue<Value: Sendable & Equatable>: Sendable, Equatable {
    /// The name.
    public var name: String
    /// The value.
    public var value: Value

    package init(name: String, value: Value) {
        self.name = name
        self.value = value
    }
}
