/// One line of the route table: what is served, from where, and what it takes.
public struct Route: Sendable, Equatable {
    /// The name that logs, metrics and error messages use. Unique in a table.
    public var name: String
    /// The methods served, upper case. `GET` brings `HEAD` with it (RFC 9110 §9.1). Never empty.
    public var methods: [String]
    /// Which paths it serves.
    public var pattern: PathPattern
    /// Index of the upstream in ``GatewayConfiguration/upstreams``.
    public var upstream: Int
    /// Whether a request needs a session. Without one it is answered with 401 and the upstream sees nothing of it.
    public var requiresAuthorization: Bool
    /// What is added to the request on its way to the upstream.
    public var inject: Injection
    /// Sentences for people, by the kind of failure; the code's own sentence where none stands.
    public var messages: [ProblemCode: String]
    /// The largest request body, in bytes; `nil` takes ``LimitsConfiguration/body``.
    public var bodyLimit: Int?
    /// How long the upstream may take until its response head; `nil` takes ``TimeoutsConfiguration/responseHead``.
    public var responseHeadTimeout: Duration?

    /// How long a body may pause; `nil` takes ``TimeoutsConfiguration/bodyIdle``.
    public var bodyIdleTimeout: Duration?
    /// Whether the connection may become a WebSocket (RFC 6455, RFC 8441).
    public var allowsWebSocket: Bool
    /// Which share of its requests gets a line in the access log, 0...1. Those that failed get one in any case.
    public var accessLogRatio: Double
    /// Names of request fields that are passed on although ``ClaimFields`` has them removed.
    public var passFields: [String]

    /// Makes a route.
    public init(
        name: String, methods: [String], pattern: PathPattern, upstream: Int = 0, requiresAuthorization: Bool,
        inject: Injection = [], messages: [ProblemCode: String] = [:], bodyLimit: Int? = nil,
        responseHeadTimeout: Duration? = nil, bodyIdleTimeout: Duration? = nil, allowsWebSocket: Bool = false,
        accessLogRatio: Double = 1, passFields: [String] = []
    ) {
        self.name = name
        self.methods = methods
        self.pattern = pattern
        self.upstream = upstream
        self.requiresAuthorization = requiresAuthorization
        self.inject = inject
        self.messages = messages
        self.bodyLimit = bodyLimit
        self.responseHeadTimeout = responseHeadTimeout
        self.bodyIdleTimeout = bodyIdleTimeout
        self.allowsWebSocket = allowsWebSocket
        self.accessLogRatio = accessLogRatio
        self.passFields = passFields
    }
}

/// What a route adds to a request.
public struct Injection: OptionSet, Sendable, Hashable {
    /// The bits, one for each kind.
    public let rawValue: UInt8

    /// Makes a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The upstream's API token, in the field that the upstream's plan names.
    public static let apiToken = Injection(rawValue: 1)
    /// `Authorization: Bearer` with the session's access token, where there is a session.
    public static let bearer = Injection(rawValue: 2)
}
