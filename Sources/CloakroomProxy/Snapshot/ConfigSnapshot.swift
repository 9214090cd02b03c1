public import CloakroomCore
package import CloakroomTelemetry
package import Logging
import NIOCore
package import Tracing

/// An immutable configuration prepared for serving: all tables, policies and problem documents that requests need.
/// Shared by all event loops.
///
/// Folder `Snapshot/`: the tables that requests need, prepared once per configuration, so that serving a request only
/// reads them.
public final class ConfigSnapshot: Sendable {
    /// The configuration it was created from.
    public let configuration: GatewayConfiguration
    let routeTable: RouteTable
    let routes: [RouteRuntime]
    /// The addresses of the listeners. As text, because each rejected request has one.
    private let listenerAddresses: [String]
    /// The folders of routes that serve files.
    let folders: [FileFolder]
    let upstreams: [UpstreamRuntime]
    /// All targets of all upstreams in one list; metrics and the access log use its indices.
    let targets: [UpstreamTarget]
    let cookie: SessionCookie
    /// The `Set-Cookie` line that clears the session cookie, with its line end.
    let cookieClearingLine: [UInt8]
    let requestPolicy: RequestHeaderPolicy
    /// Those of proxies that forward requests themselves.
    let forwardedFields: ForwardedFields
    let responsePolicy: ResponseHeaderPolicy
    let trailerPolicy: TrailerPolicy
    /// Of responses to requests that no route serves; `nil` for none.
    let responseFields: FieldChanges?
    /// Of the gateway's own endpoints.
    let ownFields: FieldChanges?
    let crossSite: CrossSitePolicy
    /// `nil` if every listener serves every host with the same routes.
    let hosts: HostRules?
    let cors: CORSPolicy
    /// `nil` if nothing is limited.
    let rates: RateLimits?
    let sessions: any SessionAccess
    let refresher: any TokenRefreshing
    let exchanger: any TokenExchanging
    /// `nil` if no access tokens of clients are accepted.
    let tokens: (any AccessTokenVerifying)?
    /// `nil` if no session is bound to a device.
    let devices: DeviceSessions?
    /// Empty if there is only one.
    let sites: [SiteRuntime]
    /// Those of the only site.
    let loginLinks: LoginLinks
    /// `nil` unless users who navigate get pages in place of problem documents.
    let errorPages: ErrorPages?
    /// The number of segments of the accounts prefix.
    let accountsDepth: Int
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
    ///   - refresher: Refreshes the tokens of sessions.
    ///   - exchanger: Exchanges the tokens of sessions for those of an upstream. By default none can be exchanged.
    ///   - tokens: Verifies the access tokens of clients.
    ///   - assertions: Signs assertions for upstreams.
    ///   - accountEndpoints: Handles requests for account endpoints.
    ///   - tracer: Creates spans of sampled requests; `nil` disables spans.
    ///   - logger: Logs why an upstream cannot be reached, at most once per 10 s and target.
    ///   - resolver: Resolves the host names of upstreams.
    ///   - sessionClock: The clock of the session store.
    ///   - rateStorage: The table of rate limits, which outlives the configuration.
    ///   - devices: Checks the proofs of sessions that are bound to a device.
    ///   - previous: The previous configuration, whose folders and requests in flight outlive it too.
    ///   - upstreamTargets: Targets of each upstream of the configuration, if shared with identity requests; `nil`
    ///     creates them.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with an upstream is invalid, ``FileScanError`` if a folder
    ///   cannot be scanned.
    package init(
        configuration: GatewayConfiguration, sessions: any SessionAccess, refresher: any TokenRefreshing,
        exchanger: any TokenExchanging = NoTokenExchange(), tokens: (any AccessTokenVerifying)? = nil,
        assertions: (any AssertionSigning)? = nil,
        accountEndpoints: any AccountEndpointHandler,
        telemetry: GatewayTelemetry, tracer: (any Tracer)?,
        logger: Logger = Logger(label: "cloakroom") { _ in SwiftLogNoOpLogHandler() },
        resolver: HostResolver = .system, sessionClock: SessionClock = SessionClock(),
        rateStorage: RateLimitStorage = RateLimitStorage(), devices: DeviceSessions? = nil,
        previous: ConfigSnapshot? = nil, upstreamTargets: [UpstreamTargets]? = nil
    ) throws {
        self.configuration = configuration
        listenerAddresses = configuration.listeners.map(\.address.description)
        self.sessions = sessions
        self.refresher = refresher
        self.exchanger = exchanger
        self.tokens = tokens
        self.devices = devices
        sites = SiteRuntime.all(configuration)
        loginLinks = LoginLinks(configuration.accounts)
        errorPages = configuration.pages.errors ? ErrorPages(configuration) : nil
        accountsDepth = configuration.accounts.prefix.split(separator: "/").count
        self.sessionClock = sessionClock
        self.accountEndpoints = accountEndpoints
        self.telemetry = telemetry
        self.logger = logger
        self.tracer = tracer
        routeTable = RouteTable(configuration)
        cookie = SessionCookie(
            configuration.session.cookie, hasLogins: !configuration.identities.isEmpty, hasDevices: devices != nil)
        cookieClearingLine = cookie.clearingLine
        let injectable = configuration.upstreams.flatMap(\.tokenHeaders)
        let claimHeaderNames = configuration.claimHeaderNames + configuration.requestFieldNames
        requestPolicy = RequestHeaderPolicy(injectable: injectable + claimHeaderNames, cookie: cookie)
        forwardedFields = ForwardedFields(configuration)
        trailerPolicy = TrailerPolicy(
            injectable: injectable, others: configuration.claimHeaderNames + configuration.changedFieldNames)
        crossSite = CrossSitePolicy(configuration.crossSite)
        hosts = HostRules(configuration, routeTable.groups)
        cors = CORSPolicy(configuration.crossSite, injectable: injectable + claimHeaderNames)
        responseFields = FieldChanges(configuration.responseChanges(of: nil))
        ownFields = FieldChanges(configuration.responseFields.ownChanges)
        responsePolicy = ResponseHeaderPolicy(injectable: injectable, cookie: cookie, handlesCORS: cors.isEnabled)
        // Shared by the decisions about an upstream's routes and the requests to it: sessions are rendered for an object.
        let claimHeaders = configuration.upstreams.map { upstream in
            guard upstream.assertion != nil, let assertions else { return ClaimHeaders(upstream) }
            let signed = telemetry.metrics.assertionsSigned(upstream: upstream.name)
            let issuer = AssertionIssuer(assertions, configuration) { signed.increment() }
            return ClaimHeaders(upstream, issuer: issuer)
        }
        let rates = RateLimits(configuration, storage: rateStorage, metrics: telemetry.metrics.clientLimits)
        self.rates = rates
        let opened = try FileFolder.open(configuration.routes, previous?.folders ?? [], logger)
        self.folders = opened.compactMap(\.self)
        let counts = (previous?.routes ?? []).map { ($0.route.name, $0.inFlight) }
        let inFlight = Dictionary(counts) { $1 }
        routes = zip(configuration.routes, opened).map { route, folder in
            let rules = SessionRules(
                route, in: configuration, claimHeaders: route.upstream.flatMap { claimHeaders[$0] })
            return RouteRuntime(
                route, configuration: configuration, rules: rules, rate: rates?.limits(of: route), files: folder,
                inFlight: inFlight[route.name] ?? RequestCount())
        }
        var targets: [UpstreamTarget] = []
        let shared =
            try upstreamTargets
            ?? configuration.upstreams.map {
                try UpstreamTargets(
                    $0, loops: configuration.eventLoops ?? System.coreCount, timeouts: configuration.timeouts,
                    limits: configuration.limits, resolver: resolver, logger: logger)
            }
        upstreams = zip(zip(configuration.upstreams, shared), claimHeaders).map { pair, claimHeaders in
            let (upstream, shared) = pair
            let entry = UpstreamRuntime(
                upstream, shared, firstTarget: targets.count, claimHeaders: claimHeaders, metrics: telemetry.metrics)
            targets += upstream.targets.map {
                UpstreamTarget(upstream: upstream.name, address: $0.serverAddress, port: $0.serverPort ?? 0)
            }
            return entry
        }
        self.targets = targets
    }
}

extension ConfigSnapshot {
    /// The address of a listener; empty if there is none with this index.
    func address(ofListener index: Int) -> String {
        listenerAddresses.indices.contains(index) ? listenerAddresses[index] : ""
    }

    /// The addresses in the access log. A single one needs no name.
    var loggedListeners: [String] { listenerAddresses.count > 1 ? listenerAddresses : [] }

    /// The configuration is in effect: its settings apply to the targets that it shares with the previous one.
    func activateTargets(now: UInt64) {
        for upstream in upstreams { upstream.targets.activate(now: now) }
    }

    /// Whether a session's own token is refreshed because an upstream rejected it. Not if the upstream is one of
    /// ``AccountsConfiguration/tokensFor``: it may reject every token, and a refresh that fails for good would end a
    /// session whose token is valid at the upstream that issued it.
    func refreshes(_ session: Session, rejectedBy upstream: Int) -> Bool {
        configuration.accounts.upstream == upstream || session.source != configuration.sessionSource
    }

    /// Whether these tables contain an equivalent of another configuration's route: the same access rules, upstream and
    /// credentials.
    /// - Parameter source: The source of the session whose request uses the route; `nil` without a session.
    func containsEquivalent(_ old: RouteRuntime, of others: ConfigSnapshot, for source: SessionSource?) -> Bool {
        let route = old.route
        // A host may belong to another site, or a site have other identities.
        guard configuration.sites == others.configuration.sites else { return false }
        return routes.contains { entry in
            var same = entry.route
            guard same.name == route.name, same.rewrite == route.rewrite, let mine = same.upstream,
                let theirs = route.upstream,
                configuration.upstreams[mine] == others.configuration.upstreams[theirs]
            else {
                return false
            }
            // An identity may have been removed, or its tokens be meant for other upstreams now.
            if let source, !entry.rules.isEquivalent(to: old.rules, for: source) { return false }
            if route.credentials.acceptsTokens,
                configuration.accessTokens(of: source) != others.configuration.accessTokens(of: source)
            {
                return false
            }
            same.action = route.action
            same.messages = route.messages
            (same.responseFields, same.responsePreset) = (route.responseFields, route.responsePreset)
            same.rate = route.rate
            same.accessLogRatio = route.accessLogRatio
            return same == route
        }
    }
}

extension GatewayConfiguration {
    /// Which access tokens of clients the identity of a session's source accepts.
    fileprivate func accessTokens(of source: SessionSource?) -> IdentityConfiguration.AccessTokens? {
        identities.first { $0.source == source }?.accessTokens
    }
}

/// Runtime state of a route. A class, because passing it costs one reference count and not one per field: as a struct
/// it took 2 % of the instructions of a request.
final class RouteRuntime: Sendable {
    let route: Route
    /// Index of the upstream; -1 for redirects, files and external upstreams, which the gateway never forwards to.
    let upstream: Int
    /// The files that the route responds with.
    let files: FileFolder?
    /// Length of the part of the path before that of a file.
    let filesPrefix: Int
    /// How the path changes; `nil` for most routes.
    let rewrite: PathRewrite?
    /// Part of ``rules``, copied so that most decisions read nothing else.
    let access: RouteAccess
    let credentials: RouteCredentials
    let rules: SessionRules
    let unauthorized: UnauthorizedProblems
    let bodyLimit: Int
    let responseHeadTimeout: UInt64
    let bodyIdleTimeout: UInt64
    /// Maximum time of a request in nanoseconds; 0 for none.
    let deadline: UInt64
    /// The origins whose pages may open a WebSocket, if ``Route/stream`` lists any.
    let streamOrigins: [WebOrigin]
    /// Requests in flight, counted only if the route limits them. Shared with the routes of this name of earlier
    /// configurations.
    let inFlight: RequestCount
    /// Lower-case names of fields that are forwarded although the policy strips them.
    let passedFields: [[UInt8]]
    let requestFields: FieldChanges?
    let responseFields: FieldChanges?
    /// `nil` if no limit counts its requests.
    let rate: RouteRateLimits?
    /// Whether requests are counted before their session is looked up, and once it is known. They are uses of it only then.
    let (limitsEarly, limitsSessions): (Bool, Bool)

    init(
        _ route: Route, configuration: GatewayConfiguration, rules: SessionRules, rate: RouteRateLimits?,
        files: FileFolder?, inFlight: RequestCount
    ) {
        self.route = route
        self.inFlight = inFlight
        self.files = files
        filesPrefix = route.pattern.base?.description.utf8.count ?? 0
        self.rate = rate
        (limitsEarly, limitsSessions) = (rate?.early.isEmpty == false, rate?.late.isEmpty == false)
        upstream = route.upstream.flatMap { configuration.upstreams[$0].isExternal ? nil : $0 } ?? -1
        rewrite = route.rewrite
        requestFields = FieldChanges(route.requestFields, of: route)
        responseFields = FieldChanges(configuration.responseChanges(of: route))
        self.rules = rules
        access = rules.access
        credentials = route.credentials
        unauthorized = UnauthorizedProblems(messages: route.messages)
        passedFields = route.passFields.map { Array($0.lowercased().utf8) }
        bodyLimit = route.bodyLimit ?? configuration.limits.body
        // The messages of a gRPC call may be far apart, in both directions.
        let bodyIdle = route.grpc ? configuration.timeouts.tunnelIdle : configuration.timeouts.bodyIdle
        bodyIdleTimeout = (route.bodyIdleTimeout ?? bodyIdle).wholeNanoseconds
        deadline = route.deadline.wholeNanoseconds
        streamOrigins = route.stream.origins.compactMap { WebOrigin($0) }
        responseHeadTimeout = (route.responseHeadTimeout ?? configuration.timeouts.responseHead).wholeNanoseconds
    }

    /// Counts a request in flight. Call only if the route limits them; ``endRequest()`` follows.
    /// - Returns: Whether the limit allows it. Otherwise nothing is counted.
    func beginRequest() -> Bool { inFlight.begin(limit: route.inFlight) }

    /// A request that was counted has ended.
    func endRequest() { inFlight.end() }

    /// Whether `Vary: Cookie` is added. If a session is optional, responses without one depend on the cookie too. Another
    /// `Vary` of the upstream is not sufficient, because it never sees the cookie.
    func varies(_ summary: ResponseHeaderPolicy.ResponseHeaderSummary) -> Bool {
        access.usesSession && !summary.variesByCookie
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
        // Few, so a search costs less than a hash. No copies: a document has references.
        let index = documents.indices.first { documents[$0].problem.reason == reason }
        return documents[index ?? 0]
    }
}
