public import CloakroomCore
import CloakroomTLS
public import CloakroomTelemetry
public import Logging
import NIOCore
public import Tracing

/// An immutable configuration prepared for serving: all tables, policies and problem documents that requests need.
/// Shared by all event loops.
public final class ConfigSnapshot: Sendable {
    /// The configuration it was created from.
    public let configuration: GatewayConfiguration
    let routeTable: RouteTable
    let routes: [RouteRuntime]
    let upstreams: [UpstreamRuntime]
    /// All targets of all upstreams in one list; metrics and the access log use its indices.
    let targets: [UpstreamTarget]
    let cookie: SessionCookie
    /// The `Set-Cookie` line that clears the session cookie, with its line end.
    let cookieClearingLine: [UInt8]
    let requestPolicy: RequestHeaderPolicy
    let responsePolicy: ResponseHeaderPolicy
    let trailerPolicy: TrailerPolicy
    let crossSite: CrossSitePolicy
    let cors: CORSPolicy
    let sessions: any SessionStore
    let refresher: any TokenRefreshing
    let sessionClock: SessionClock
    let accountEndpoints: any AccountEndpointHandler
    let telemetry: GatewayTelemetry
    let logger: Logger
    /// Creates spans of sampled requests; `nil` disables spans.
    let tracer: (any Tracer)?

    /// Route name of the account endpoints in metrics and the access log.
    static let accountsRouteName = "(accounts)"

    /// Creates the tables.
    /// - Parameters:
    ///   - sessions: The session store.
    ///   - renewer: Refreshes the tokens of sessions.
    ///   - ownEndpoints: Handles requests for account endpoints.
    ///   - tracer: Creates spans of sampled requests; `nil` disables spans.
    ///   - logger: Logs why an upstream cannot be reached, at most once per 10 s and target.
    ///   - resolver: Resolves the host names of upstreams.
    ///   - sessionClock: The clock of the session store.
    ///   - upstreamTargets: Targets of each upstream of the configuration, if shared with identity requests; `nil`
    ///     creates them.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with an upstream is invalid.
    public init(
        configuration: GatewayConfiguration, sessions: any SessionStore, refresher: any TokenRefreshing,
        accountEndpoints: any AccountEndpointHandler,
        telemetry: GatewayTelemetry, tracer: (any Tracer)?,
        logger: Logger = Logger(label: "cloakroom") { _ in SwiftLogNoOpLogHandler() },
        resolver: HostResolver = .system, sessionClock: SessionClock = SessionClock(),
        upstreamTargets: [UpstreamTargets]? = nil
    ) throws {
        self.configuration = configuration
        self.sessions = sessions
        self.refresher = refresher
        self.sessionClock = sessionClock
        self.accountEndpoints = accountEndpoints
        self.telemetry = telemetry
        self.logger = logger
        self.tracer = tracer
        routeTable = RouteTable(configuration)
        cookie = SessionCookie(configuration.session.cookie)
        cookieClearingLine = Array("Set-Cookie: \(cookie.clearCookieValue)\r\n".utf8)
        let injectable = configuration.upstreams.compactMap { $0.apiToken?.header }
        requestPolicy = RequestHeaderPolicy(injectable: injectable, cookie: cookie)
        trailerPolicy = TrailerPolicy(injectable: injectable)
        crossSite = CrossSitePolicy(configuration.crossSite)
        cors = CORSPolicy(configuration.crossSite, injectable: injectable)
        responsePolicy = ResponseHeaderPolicy(injectable: injectable, cookie: cookie, handlesCORS: cors.isEnabled)
        let source = configuration.sessionSource
        routes = configuration.routes.map { RouteRuntime($0, configuration: configuration, source: source) }
        var targets: [UpstreamTarget] = []
        let selectors =
            try upstreamTargets
            ?? configuration.upstreams.map { try UpstreamTargets($0, resolver: resolver, logger: logger) }
        upstreams = zip(configuration.upstreams, selectors).map { upstream, selector in
            let entry = UpstreamRuntime(
                upstream, selector, firstTarget: targets.count, metrics: telemetry.metrics)
            targets += upstream.targets.map {
                UpstreamTarget(upstream: upstream.name, address: $0.serverAddress, port: $0.serverPort ?? 0)
            }
            return entry
        }
        self.targets = targets
    }
}

extension ConfigSnapshot {
    /// Whether these tables contain an equivalent of another configuration's route: the same access rules, upstream and
    /// credentials.
    func containsEquivalent(_ route: Route, of others: ConfigSnapshot) -> Bool {
        routes.contains { entry in
            var same = entry.route
            guard same.name == route.name,
                configuration.upstreams[same.upstream] == others.configuration.upstreams[route.upstream]
            else {
                return false
            }
            same.upstream = route.upstream
            same.messages = route.messages
            same.accessLogRatio = route.accessLogRatio
            return same == route
        }
    }
}

/// Runtime state of a route. A class, because passing it costs one reference count and not one per field: as a struct
/// it took 2 % of the instructions of a request.
final class RouteRuntime: Sendable {
    let route: Route
    let access: RouteAccess
    let unauthorized: UnauthorizedProblems
    let bodyLimit: Int
    let responseHeadTimeout: UInt64
    let bodyIdleTimeout: UInt64
    /// Lower-case names of fields that are forwarded although the policy strips them.
    let passedFields: [[UInt8]]

    init(_ route: Route, configuration: GatewayConfiguration, source: SessionSource?) {
        self.route = route
        access = route.access(source: source)
        unauthorized = UnauthorizedProblems(messages: route.messages)
        passedFields = route.passFields.map { Array($0.lowercased().utf8) }
        bodyLimit = route.bodyLimit ?? configuration.limits.body
        bodyIdleTimeout = (route.bodyIdleTimeout ?? configuration.timeouts.bodyIdle).wholeNanoseconds
        responseHeadTimeout = (route.responseHeadTimeout ?? configuration.timeouts.responseHead).wholeNanoseconds
    }

    /// Whether `Vary: Cookie` is required. If a session is optional, responses without one depend on the cookie too.
    /// The `Vary` of such an upstream is not sufficient, because it never sees the cookie.
    func varies(_ summary: ResponseHeaderPolicy.ResponseHeaderSummary) -> Bool {
        guard access.usesSession else { return false }
        return access.requiresAuthorization ? !summary.hasVary : !summary.variesByCookie
    }

    /// A problem with the route's own message, if configured.
    func problem(_ code: ProblemCode, status: Int? = nil, retryAfter: Int? = nil) -> ProblemDocument {
        ProblemDocument(Problem(code, status: status, detail: route.messages[code], retryAfter: retryAfter))
    }
}

/// The 401 responses of a route, one per reason, rendered in advance.
struct UnauthorizedProblems: Sendable {
    private let documents: [ProblemDocument]

    init(messages: [ProblemCode: String]) {
        documents = UnauthorizedReason.allCases.map {
            ProblemDocument(Problem(.unauthorized, detail: messages[.unauthorized], reason: $0))
        }
    }

    subscript(reason: UnauthorizedReason) -> ProblemDocument {
        let index =
            switch reason {
            case .noSession: 0
            case .expiredIdle: 1
            case .expiredAbsolute: 2
            case .revoked: 3
            case .refreshRejected: 4
            case .invalidCredentials: 5
            }
        return documents[index]
    }
}
