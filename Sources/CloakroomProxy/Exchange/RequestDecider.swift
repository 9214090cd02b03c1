import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// The decision on a request, before it is executed.
enum RequestDecision {
    case forward(UpstreamPermit)
    /// Forward, and refresh the session's tokens in the background.
    case forwardAndRefresh(UpstreamPermit, Session, SessionTicket)
    /// The target or the authority is invalid.
    case malformed
    case problem(ProblemDocument, ExchangeDecision, allow: String?)
    /// The session, or its absence, does not permit the request. In a box of its own, which only these requests need:
    /// it would make the value of every decision larger.
    indirect case denied(Denial)
    case own(AccountEndpoint)
    /// The listener only redirects: 308 to path and query at this origin.
    case redirect(origin: String)
    case loadSession(SessionTicket, route: Int)
    /// The session's tokens have expired.
    case refresh(Session, SessionTicket, route: Int)
    /// The upstream receives a token that has to be exchanged for the session's own.
    case exchange(PendingExchange)
    /// The access token of the client, or its name and password, has to be verified.
    case verify(Secret, route: Int)
    /// The session's tokens were issued by a source that the configuration does not have.
    case endSession(SessionTicket, route: Int)
    /// A CORS preflight: the field lines of the response.
    case preflight([UInt8], ExchangeDecision)
    /// `OPTIONS *` (RFC 9110 §9.3.7), or an `OPTIONS` request that is not forwarded.
    case serverOptions
}

/// A local response in place of forwarding a request to a route.
struct Denial {
    enum Response {
        case problem(ProblemDocument)
        /// 303 to this address (RFC 9110 §15.4.4).
        case redirect(String)
    }

    /// What is logged about a session that may not use the route.
    struct Event {
        var code: ProblemCode
        var claim: String?
        var session: Session
    }

    var response: Response
    var decision: ExchangeDecision
    /// Why there is no session.
    var reason: UnauthorizedReason?
    /// Complete field lines to add.
    var fieldLines: [UInt8] = []
    var event: Event?
}

/// Decides what to do with a request. Evaluates the decision types in the order of the request path: target, authority,
/// host, fields, CORS, route, rate limits, cross-site rules, session, authorization.
struct RequestDecider {
    let config: ConfigSnapshot
    /// Whether the client's forwarding fields are trusted.
    let isTrusted: Bool
    let scheme: URIScheme
    /// Index of the listener of the connection.
    let listener: Int
    /// Whether another proxy forwards the request, and only asks.
    var decidesForProxy = false

    /// Decides on a request that has just begun.
    /// - Parameters:
    ///   - session: Looks up the session of a ticket, and whether that is a use of it; called at most once.
    ///   - limit: Charges the request to the rate limits that are decided before the session is looked up, those of a
    ///     route or of every request; called at most once, before `session`, and not for a route without such limits.
    ///   - now: Time at which the request was received.
    func decide(
        _ request: inout InboundRequest, session: (SessionTicket, Bool) -> SessionLookup,
        limit: (inout InboundRequest, RouteRuntime?) -> RequestDecision?, now: WallTime
    ) -> RequestDecision {
        let bytes = request.head.bytes
        let span = bytes.readableBytesUInt8Span
        if request.method == .connect {
            return Self.limitEarly(&request, isInvalid: true, limit) ?? Self.problem(.notImplemented)
        }
        do throws(RequestTargetError) {
            request.target = try RequestTarget.parse(
                span.extracting(request.head.target.start..<request.head.target.end), scratch: &request.normalizedPath)
        } catch {
            return Self.limitEarly(&request, isInvalid: true, limit) ?? .malformed
        }
        if decidesForProxy, !Self.isInNormalForm(request.target) {
            return Self.limitEarly(&request, isInvalid: false, limit) ?? .malformed
        }
        guard Self.resolveAuthority(&request, span) else {
            return Self.limitEarly(&request, isInvalid: true, limit) ?? .malformed
        }
        if let hosts = config.hosts, let response = findHost(of: &request, span, hosts) {
            return Self.limitEarly(&request, isInvalid: false, limit) ?? response
        }
        if request.target.isAsterisk {
            let isOptions = request.method == .options
            return Self.limitEarly(&request, isInvalid: !isOptions, limit)
                ?? (isOptions ? .serverOptions : Self.problem(.badRequest))
        }
        if isTrusted, !decidesForProxy { Self.readTraceContext(&request, span) }
        let reading = request.repeatedCookies.read(config.cookie, request.head, others: &request.otherCookies)
        request.ticket = if case .ticket(let ticket) = reading { ticket } else { nil }
        if !config.sites.isEmpty, let ticket = request.ticket {
            request.ticket = config.ticket(ticket, ofGroup: request.routeGroup)
        }
        request.summary = config.requestPolicy.apply(
            &request.head, isTrusted: isTrusted, reading: reading, hasForeign: request.otherCookies.hasForeign)
        if decidesForProxy, let rejection = checkOriginal(&request) { return limit(&request, nil) ?? rejection }
        // An HTTP/1.0 client's expectation is ignored (RFC 9110 §10.1.1).
        if request.version == .http1_0 { request.summary.expectation = .none }
        // `Max-Forwards: 0` ends the request here (RFC 9110 §7.6.2).
        if request.summary.maxForwards == .value(0) { return limit(&request, nil) ?? .serverOptions }
        if config.cors.isEnabled, let preflight = evaluateCORS(&request, span) { return preflight }
        let method = span.extracting(request.head.method.start..<request.head.method.end)
        switch match(&request, method: method, span) {
        case .notFound:
            // TRACE is never echoed to a client (RFC 9110 §9.3.8).
            return limit(&request, nil)
                ?? (request.method == .trace ? Self.problem(.methodNotAllowed, allow: "") : Self.problem(.notFound))
        case .methodNotAllowed(let allow):
            return limit(&request, nil) ?? Self.problem(.methodNotAllowed, allow: allow)
        case .accountEndpoint where decidesForProxy: return limit(&request, nil) ?? Self.problem(.notFound)
        case .accountEndpoint(let endpoint):
            request.routeIndex = routeIndex(of: endpoint, request)
            // Servers of providers end the sessions of many users from one address.
            if endpoint != .backChannel, let rejection = limit(&request, nil) { return rejection }
            // Servers of providers send no cookie, and none of the fields that pages of the gateway can add.
            guard endpoint == .backChannel || !isFromAnotherSite(&request, for: endpoint) else {
                return .problem(ProblemDocument(Problem(.crossSite)), .csrfRejected, allow: nil)
            }
            return .own(endpoint)
        case .route(let index):
            // TRACE is rejected even if a route lists it (RFC 9110 §9.3.8).
            guard request.method != .trace else {
                return limit(&request, nil) ?? Self.problem(.methodNotAllowed, allow: "")
            }
            request.routeIndex = index
            let entry = config.routes[index]
            if entry.limitsEarly, let rejection = limit(&request, entry) { return rejection }
            request.awaitsLimit = entry.limitsSessions
            if entry.route.allowsWebSocket, !entry.route.stream.origins.isEmpty,
                request.upgrade != .none || request.isWebSocketHandshake,
                !CrossSitePolicy.permits(entry.streamOrigins, request.summary.origin, span)
            {
                return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil)
            }
            if entry.credentials != .session,
                request.summary.hasAuthorization || !entry.credentials.contains(.session)
            {
                return decideByField(&request, route: index, now: now)
            }
            if request.summary.hasSessionCookie, entry.access.usesSession,
                isFromAnotherSite(&request, allowsWebSocket: entry.route.allowsWebSocket)
            {
                return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil)
            }
            let (ticket, group, isUse) = (request.ticket, request.routeGroup, !entry.limitsSessions)
            var lookup: SessionLookup { ticket.map { session($0, isUse) } ?? .missing(.noSession) }
            // The session is not looked up if the route uses none.
            let decision = AuthDecision.decide(
                entry.access, at: index, now: now, rules: entry.rules,
                session: proven(
                    config.sites.isEmpty ? lookup : config.admitted(lookup, ofGroup: group), &request, now: now))
            // Most requests. The function below gets a copy of the request, because it is `inout` here.
            if case .forward(let permit) = decision { return .forward(permit) }
            return requestDecision(of: decision, request, route: index, now: now)
        }
    }

    /// Decides whether the session permits a request, after the session has been loaded.
    /// - Returns: `nil` if the session is still not cached.
    func authorize(_ request: borrowing InboundRequest, route index: Int, loaded lookup: SessionLookup, now: WallTime)
        -> RequestDecision?
    {
        let entry = config.routes[index]
        let found = config.admitted(lookup, ofGroup: request.routeGroup)
        let decision = AuthDecision.decide(entry.access, at: index, now: now, rules: entry.rules, session: found)
        guard decision != .loadSession else { return nil }
        return requestDecision(of: decision, request, route: index, now: now)
    }

    /// Decides whether the session permits a request, after the session has just been refreshed.
    func authorize(_ request: borrowing InboundRequest, route index: Int, refreshed session: Session, now: WallTime)
        -> RequestDecision
    {
        let entry = config.routes[index]
        let decision = AuthDecision.decide(
            entry.access, at: index, refreshed: session, rules: entry.rules, now: now)
        return requestDecision(of: decision, request, route: index, now: now)
    }

    /// Maps a route's authorization decision to a request decision.
    func requestDecision(
        of decision: AuthDecision, _ request: borrowing InboundRequest, route index: Int, now: WallTime
    ) -> RequestDecision {
        switch decision {
        case .forward(let permit): return .forward(permit)
        case .forwardAndRefresh(let permit, let session):
            return request.ticket.map { .forwardAndRefresh(permit, session, $0) } ?? .forward(permit)
        case .unauthorized(let reason): return unauthorized(reason, request, config.routes[index])
        case .refresh(let session):
            if let ticket = request.ticket { return .refresh(session, ticket, route: index) }
        case .endSession:
            if let ticket = request.ticket { return .endSession(ticket, route: index) }
        case .loadSession:
            if let ticket = request.ticket { return .loadSession(ticket, route: index) }
        case .exchange(let pending):
            let cached = config.exchanger.cached(pending.session, upstream: pending.upstream, now: now)
            let next = pending.decide(cached: cached, now: now)
            guard case .exchange = next else { return requestDecision(of: next, request, route: index, now: now) }
            return .exchange(pending)
        case .missingClaim("scope", let session) where request.credential != nil && session.provenance != nil:
            config.telemetry.metrics.identities[session.provenance?.identity ?? ""].tokens[.scope]?.increment()
            return forbidden(.insufficientScope, claim: "scope", session, config.routes[index])
        case .missingClaim(let name, let session):
            return forbidden(.missingClaim, claim: name, session, config.routes[index])
        case .wrongIdentity(let session): return forbidden(.wrongIdentity, session, config.routes[index])
        case .unbound(let session): return forbidden(.deviceRequired, session, config.routes[index])
        case .stepUp(let session): return stepUp(request, session, config.routes[index])
        }
        assertionFailure("a session without a ticket")
        return .problem(config.routes[index].unauthorized[.noSession], .unauthenticated, allow: nil)
    }

    static func problem(_ code: ProblemCode, allow: String? = nil) -> RequestDecision {
        .problem(ProblemDocument(Problem(code)), .undecided, allow: allow)
    }

    func match(_ request: inout InboundRequest, method: Span<UInt8>, _ span: Span<UInt8>) -> RouteTable.Match {
        let target = request.target
        if target.isPathRewritten {
            let path = request.normalizedPath
            return config.routeTable.match(
                method: method, path: path.span, group: request.routeGroup, scratch: &request.lenientPath,
                sent: &request.sentPath)
        }
        let start = request.head.target.start + target.path.start
        if target.path.isEmpty {
            let root = Self.root
            return config.routeTable.match(
                method: method, path: root.span, group: request.routeGroup, scratch: &request.lenientPath,
                sent: &request.sentPath)
        }
        return config.routeTable.match(
            method: method, path: span.extracting(start..<(start + target.path.count)), group: request.routeGroup,
            scratch: &request.lenientPath, sent: &request.sentPath)
    }

    private static let root: [UInt8] = [UInt8(ascii: "/")]

    /// Reads the trace context of a trusted client; that of an untrusted peer is ignored (W3C Trace Context §7.3).
    private static func readTraceContext(_ request: inout InboundRequest, _ span: Span<UInt8>) {
        let fields = TraceContextFields.read(request.head)
        guard let range = fields.parent,
            let context = TraceContext(traceparent: span.extracting(range.start..<range.end))
        else { return }
        request.traceContext = context
        request.traceFields = fields
    }
}

/// Requests that their session, or its absence, does not permit.
extension RequestDecider {
    func unauthorized(
        _ reason: UnauthorizedReason, _ request: borrowing InboundRequest, _ entry: RouteRuntime
    ) -> RequestDecision {
        guard entry.route.onMissingSession == .login else {
            return .problem(entry.unauthorized[reason], .unauthenticated, allow: nil)
        }
        let response: Denial.Response =
            isNavigation(request, to: entry)
            ? .redirect(config.links(ofGroup: request.routeGroup).signIn(returnTo: request.normalTarget))
            : .problem(entry.unauthorized[reason])
        return .denied(
            Denial(response: response, decision: .unauthenticated, reason: reason, fieldLines: Self.varyLine))
    }

    /// The route requires a stronger or more recent authentication. Scripts get a challenge (RFC 9470 §3) and the path
    /// to continue at.
    private func stepUp(
        _ request: borrowing InboundRequest, _ session: Session, _ entry: RouteRuntime
    ) -> RequestDecision {
        let name = entry.route.name
        let redirects = entry.route.onMissingSession == .login
        let vary = redirects ? Self.varyLine : []
        if redirects, isNavigation(request, to: entry) {
            let location = config.links(ofGroup: request.routeGroup).stepUp(for: name, returnTo: request.normalTarget)
            return .denied(
                Denial(response: .redirect(location), decision: .unauthenticated, fieldLines: vary))
        }
        let problem = Problem(.stepUp, detail: entry.route.messages[.stepUp])
        let required = entry.route.require.stepUp(for: session.claims?.values)
        let challenge = Array("WWW-Authenticate: \(required.challenge)\r\n".utf8)
        let link = config.links(ofGroup: request.routeGroup).stepUp(for: name)
        return .denied(
            Denial(
                response: .problem(ProblemDocument(problem, login: link)),
                decision: .unauthenticated, fieldLines: challenge + vary))
    }

    private func forbidden(
        _ code: ProblemCode, claim: String? = nil, _ session: Session, _ entry: RouteRuntime
    ) -> RequestDecision {
        .denied(
            Denial(
                response: .problem(entry.problem(code)), decision: .forbidden,
                event: Denial.Event(code: code, claim: claim, session: session)))
    }

    /// Whether the response may be a redirect that a browser follows and its user sees. Upgrades, gRPC calls and
    /// HTTP/1.0 requests are never navigations, whatever their fields are.
    private func isNavigation(_ request: borrowing InboundRequest, to entry: RouteRuntime) -> Bool {
        request.version != .http1_0 && request.upgrade == .none && !request.summary.requestsWebSocket
            && !entry.route.grpc && request.fetchMetadata.isNavigation
    }

    /// The response depends on whether the request is a navigation.
    private static let varyLine = Array("Vary: \(FetchMetadata.vary)\r\n".utf8)
}

extension RequestDecider {
    /// The index of the labels of an account endpoint: they follow those of the routes, one per path template.
    func routeIndex(of endpoint: AccountEndpoint, _ request: borrowing InboundRequest) -> Int {
        let hasName = request.lastSegment(after: config.accountsDepth + 1) != nil
        return config.routes.count + endpoint.templateIndex(hasName: hasName)
    }
}
