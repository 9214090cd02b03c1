public import CloakroomCore
import CloakroomTLS
public import CloakroomTelemetry
public import Logging
import NIOCore
public import Tracing

/// A plan made ready for serving: every table, policy and document that a request needs, shared by all event loops.
public final class ConfigSnapshot: Sendable {
    /// The plan that it was made from.
    public let configuration: GatewayConfiguration
    let routeTable: RouteTable
    let routes: [RouteRuntime]
    let upstreams: [UpstreamRuntime]
    /// All targets of all upstreams in one row: what metrics and the access log name them by.
    let targets: [UpstreamTarget]
    let cookie: SessionCookie
    /// The field line that takes a ticket away, with its line end.
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
    /// Makes spans of sampled requests; `nil` makes none.
    let tracer: (any Tracer)?

    /// The name under which metrics and the access log know the gateway's own endpoints.
    static let accountsRouteName = "(accounts)"

    /// Makes the tables.
    /// - Parameters:
    ///   - sessions: Where sessions are found.
    ///   - renewer: Who renews their tokens.
    ///   - ownEndpoints: Who answers for the gateway's own endpoints.
    ///   - tracer: Makes spans of sampled requests; `nil` makes none.
    ///   - logger: Is told, now and then, why an upstream cannot be reached.
    ///   - resolver: Finds the addresses of upstreams that are given by name.
    ///   - sessionClock: The time by which sessions live; the store's.
    ///   - upstreamTargets: The targets of each upstream of the plan, if identity calls share them; `nil` makes them.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with an upstream is of no use.
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
    /// Whether a route of other tables stands in these too, as far as it says who may pass, to where, and with what.
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

/// A route made ready for serving. A class, so that handing it around costs one reference and not one for each field:
/// as a struct it was 2 % of the instructions of a request.
final class RouteRuntime: Sendable {
    let route: Route
    let access: RouteAccess
    let unauthorized: UnauthorizedProblems
    let bodyLimit: Int
    let responseHeadTimeout: UInt64
    let bodyIdleTimeout: UInt64
    /// Names of fields that are passed on although policy removes them, in lower case.
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

    /// Whether to say that an answer depends on the cookie. Where a session is not needed, those without one depend on it
    /// too; what such an upstream says of other fields does not settle it, as it never sees the cookie.
    func varies(_ summary: ResponseHeaderPolicy.ResponseHeaderSummary) -> Bool {
        guard access.usesSession else { return false }
        return access.requiresAuthorization ? !summary.hasVary : !summary.variesByCookie
    }

    /// A problem in the route's own words, where it has some.
    func problem(_ code: ProblemCode, status: Int? = nil, retryAfter: Int? = nil) -> ProblemDocument {
        ProblemDocument(Problem(code, status: status, detail: route.messages[code], retryAfter: retryAfter))
    }
}

/// The 401 answers of a route, one for each reason, rendered when the table is made.
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
