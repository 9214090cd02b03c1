/// An entry of the route table.
public struct Route: Sendable, Equatable {
    /// The name used in logs, metrics and error messages. Unique in a table.
    public var name: String
    /// The methods that the route accepts, upper case. `GET` includes `HEAD` (RFC 9110 §9.1). Never empty.
    public var methods: [String]
    /// The hosts that the route serves, folded; see ``HostNames``. Empty serves every host.
    public var hosts: [String] = []
    /// The paths that the route matches.
    public var pattern: PathPattern
    /// What happens to a request that the route permits.
    public var action: RouteAction = .forward(upstream: 0, nil)
    /// Whether a request needs a session. Without one it gets 401 and is not forwarded.
    public var requiresAuthorization: Bool
    /// The fields that are added to the forwarded request.
    public var inject: Injection = []
    /// Sentences for users, by problem code; without an entry the default sentence of the code is used.
    public var messages: [ProblemCode: String] = [:]
    /// The maximum size of a request body in bytes; `nil` uses ``LimitsConfiguration/body``.
    public var bodyLimit: Int?
    /// The timeout for the upstream's response head; `nil` uses ``TimeoutsConfiguration/responseHead``.
    public var responseHeadTimeout: Duration?
    /// The idle timeout of a body; `nil` uses ``TimeoutsConfiguration/bodyIdle``.
    public var bodyIdleTimeout: Duration?
    /// Whether the connection may be upgraded to a WebSocket (RFC 6455, RFC 8441).
    public var allowsWebSocket = false
    /// The fraction of its requests that are logged in the access log, 0...1. Failed requests are always logged.
    public var accessLogRatio = 1.0
    /// Names of request fields that are forwarded although ``SpoofableFields`` would remove them.
    public var passFields: [String] = []
    /// The maximum number of requests in flight, 0...1,000,000; beyond it 503. 0 is unlimited.
    public var inFlight = 0
    /// The names of rate limits that count the requests, at most 4.
    public var rate: [String] = []
    /// The maximum time from the request head to the last byte of the response, or to the beginning of a WebSocket or
    /// event stream, over all attempts, up to 1 day; zero is unlimited.
    public var deadline: Duration = .zero
    /// Whether failed requests are sent again as ``UpstreamConfiguration/retry`` specifies.
    public var retry = true
    /// Whether response times count in the latency estimate of a target; `false` for long polling, whose requests only
    /// count as in flight.
    public var timed = true
    /// Whether requests are gRPC calls. Requires an upstream whose ``UpstreamConfiguration/protocolVersion`` allows
    /// HTTP/2.
    public var grpc = false
    /// The limits of WebSockets and event streams.
    public var stream = StreamLimits()
    /// The fields that change in its requests.
    public var requestFields: [FieldChange] = []
    /// The fields that change in its responses, besides those of ``GatewayConfiguration/responseFields``.
    public var responseFields: [FieldChange] = []
    /// The security fields of its responses; `nil` uses ``ResponseFieldsConfiguration/preset``.
    public var responsePreset: FieldPreset?
    /// What happens to a request without a session, if the route requires one.
    public var onMissingSession: MissingSessionAction = .reject
    /// What is required of the session.
    public var require: SessionRequirement = .none
    /// The credentials that permit a request.
    public var credentials: RouteCredentials = .session
}

/// The credentials that a route accepts. A request with `Authorization` is not judged by its session, except with
/// ``session`` alone, which ignores the field.
public struct RouteCredentials: OptionSet, Sendable, Hashable, CustomStringConvertible {
    /// The bits, one per kind.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// A session.
    public static let session = Self(rawValue: 1)
    /// An access token (RFC 6750 §2.1).
    public static let bearer = Self(rawValue: 2)
    /// A name and a password (RFC 7617), with which the gateway signs in.
    public static let basic = Self(rawValue: 4)
    /// An access token, or without `Authorization` a session.
    public static let either: Self = [.session, .bearer]
    /// `Authorization`, which only the upstream verifies, or without it a session. Not combined with others.
    public static let pass = Self(rawValue: 9)

    /// Whether access tokens are verified.
    public var acceptsTokens: Bool { contains(.bearer) }

    /// Whether each request that the other one permits may be permitted.
    func covers(_ other: Self) -> Bool { self == .pass || contains(other) }

    /// The words of the configuration.
    public static let words: [(word: String, credentials: Self)] = [
        ("session", .session), ("bearer", .bearer), ("basic", .basic), ("either", .either), ("pass", .pass),
    ]

    /// The word, or several words with commas.
    public var description: String {
        Self.words.first { $0.credentials == self }?.word
            ?? Self.words.prefix(3).filter { contains($0.credentials) }.map(\.word).joined(separator: ", ")
    }
}

extension Route {
    package init(name: String, methods: [String], pattern: PathPattern, requiresAuthorization: Bool) {
        self.init(
            name: name, methods: methods, pattern: pattern, action: .forward(upstream: 0, nil),
            requiresAuthorization: requiresAuthorization)
    }

    // Not inlined, because the optimizer of Swift 6.3.1 ends with an error in some functions that contain these.

    /// Index of the upstream that the route forwards to; `nil` for other actions.
    @inline(never) public var upstream: Int? { if case .forward(let upstream, _) = action { upstream } else { nil } }

    /// What the route makes of the path that it forwards; `nil` for the received path.
    @inline(never) public var rewrite: PathRewrite? {
        if case .forward(_, let rewrite) = action { rewrite } else { nil }
    }

    /// The redirect that the route responds with; `nil` if it forwards.
    @inline(never) public var redirect: RedirectTemplate? {
        if case .redirect(let redirect) = action { redirect } else { nil }
    }

    /// The files that the route responds with; `nil` for other actions.
    @inline(never) public var files: FilesConfiguration? { if case .files(let files) = action { files } else { nil } }
}

/// The limits of the WebSockets and event streams of a route.
public struct StreamLimits: Sendable, Equatable {
    /// The maximum lifetime, up to 30 days and ± 10 %; zero is unlimited. Then a WebSocket gets Close 1001. An event
    /// stream that has no end of its own is completed, another one is aborted.
    public var lifetime: Duration = .zero
    /// The maximum time without data, 1 ms...1 day; `nil` uses ``TimeoutsConfiguration/tunnelIdle``.
    public var idle: Duration?
    /// The maximum size of a WebSocket message in bytes as it is sent, over all its frames, 0...1 GiB; beyond it Close
    /// 1009. 0 is unlimited.
    public var message = 0
    /// The origins whose pages may open a WebSocket; those of all others get 403. Empty permits all.
    public var origins: [String] = []
}

/// The fields that a route adds to a request.
public struct Injection: OptionSet, Sendable, Hashable {
    /// The bits, one per kind.
    public let rawValue: UInt8

    /// Creates a set from its bits.
    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The upstream's API token, in the field that the upstream's configuration specifies.
    public static let apiToken = Injection(rawValue: 1)
    /// `Authorization: Bearer` with the session's access token, if there is a session.
    public static let bearer = Injection(rawValue: 2)
}
