import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

extension Exchange {
    /// The decision on a request, before it is executed.
    enum RequestDecision {
        case forward(UpstreamPermit)
        case problem(ProblemDocument, ExchangeDecision, allow: String?)
        case own(AccountEndpoint)
        case loadSession(SessionTicket, route: Int)
        /// The session's tokens have expired.
        case refresh(Session, SessionTicket, route: Int)
        /// The session's tokens were issued by a source other than the route's upstream.
        case endSession(SessionTicket, route: Int)
        /// A CORS preflight: the field lines of the response.
        case preflight([UInt8], ExchangeDecision)
        /// `OPTIONS *` (RFC 9110 §9.3.7), or an `OPTIONS` request that is not forwarded.
        case serverOptions
    }

    /// Evaluates the decision types in the order of the request path: target, host, route, session, decision, fields.
    func decide(now: UInt64) -> RequestDecision {
        let config = snapshot.config
        trace = ExchangeTrace()
        target = .empty
        summary = RequestHeaderPolicy.RequestHeaderSummary()
        let bytes = head.bytes
        let span = bytes.readableBytesUInt8Span
        if record.method == .connect {
            return .problem(ProblemDocument(Problem(.notImplemented)), .undecided, allow: nil)
        }
        do throws(RequestTargetError) {
            target = try RequestTarget.parse(
                span.extracting(head.target.start..<head.target.end), scratch: &normalizedPath)
        } catch {
            record.errorType = .invalidRequest
            return .problem(ProblemDocument(Problem(.badRequest)), .undecided, allow: nil)
        }
        guard resolveAuthority(span) else {
            record.errorType = .invalidRequest
            return .problem(ProblemDocument(Problem(.badRequest)), .undecided, allow: nil)
        }
        if target.isAsterisk {
            guard record.method == .options else {
                return .problem(ProblemDocument(Problem(.badRequest)), .undecided, allow: nil)
            }
            return .serverOptions
        }
        extractTraceContext(span)
        let reading = config.cookie.read(head)
        ticket = if case .ticket(let ticket) = reading { ticket } else { nil }
        summary = config.requestPolicy.apply(&head, isTrusted: peer.isTrusted, reading: reading)
        // An HTTP/1.0 client's expectation is ignored (RFC 9110 §10.1.1).
        if protocolVersion == .http1_0 { summary.expectation = .none }
        // `Max-Forwards: 0` ends the request here (RFC 9110 §7.6.2).
        if summary.maxForwards == .value(0) { return .serverOptions }
        if config.cors.isEnabled, let preflight = evaluateCORS(span) { return preflight }
        switch match(config.routeTable, span) {
        case .notFound:
            // TRACE is never echoed to a client (RFC 9110 §9.3.8).
            guard record.method != .trace else {
                return .problem(ProblemDocument(Problem(.methodNotAllowed)), .undecided, allow: "")
            }
            return .problem(ProblemDocument(Problem(.notFound)), .undecided, allow: nil)
        case .methodNotAllowed(let allow):
            return .problem(ProblemDocument(Problem(.methodNotAllowed)), .undecided, allow: allow)
        case .accountEndpoint(let endpoint):
            record.routeIndex = config.routes.count
            guard !isFromAnotherSite(for: endpoint) else {
                return .problem(ProblemDocument(Problem(.crossSite)), .csrfRejected, allow: nil)
            }
            return .own(endpoint)
        case .route(let index):
            // TRACE is rejected even if a route lists it (RFC 9110 §9.3.8).
            guard record.method != .trace else {
                return .problem(ProblemDocument(Problem(.methodNotAllowed)), .undecided, allow: "")
            }
            return decide(route: index, now: now)
        }
    }

    private func decide(route index: Int, now: UInt64) -> RequestDecision {
        let config = snapshot.config
        record.routeIndex = index
        let entry = config.routes[index]
        if summary.hasSessionCookie, entry.access.usesSession, isFromAnotherSite {
            return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil)
        }
        let decision = AuthDecision.decide(
            entry.access, at: index, now: context.timestamp(at: now), session: lookUp(now: now))
        return requestDecision(of: decision, route: index)
    }

    /// Maps a route's authorization decision to a request decision.
    func requestDecision(of decision: AuthDecision, route index: Int) -> RequestDecision {
        let entry = snapshot.config.routes[index]
        switch decision {
        case .forward(let permit):
            return .forward(permit)
        case .forwardAndRefresh(let permit, let session):
            if let ticket { snapshot.config.refresher.refreshInBackground(session, ticket: ticket) }
            return .forward(permit)
        case .refresh(let session):
            guard let ticket else {
                return .problem(entry.unauthorized[.noSession], .unauthenticated, allow: nil)
            }
            return .refresh(session, ticket, route: index)
        case .endSession:
            guard let ticket else {
                return .problem(entry.unauthorized[.noSession], .unauthenticated, allow: nil)
            }
            return .endSession(ticket, route: index)
        case .unauthorized(let reason):
            return .problem(entry.unauthorized[reason], .unauthenticated, allow: nil)
        case .loadSession:
            guard let ticket else {
                return .problem(entry.unauthorized[.noSession], .unauthenticated, allow: nil)
            }
            return .loadSession(ticket, route: index)
        }
    }

    private func match(_ table: RouteTable, _ span: Span<UInt8>) -> RouteTable.Match {
        match(table, method: span.extracting(head.method.start..<head.method.end), span)
    }

    func match(_ table: RouteTable, method: Span<UInt8>, _ span: Span<UInt8>) -> RouteTable.Match {
        if target.isPathRewritten {
            let path = normalizedPath
            return table.match(method: method, path: path.span)
        }
        let start = head.target.start + target.path.start
        if target.path.isEmpty {
            let root = Self.root
            return table.match(method: method, path: root.span)
        }
        return table.match(method: method, path: span.extracting(start..<(start + target.path.count)))
    }

    private func lookUp(now: UInt64) -> SessionLookup {
        guard let ticket else { return .missing(.noSession) }
        // Consecutive requests of a connection usually carry the same cookie; hashing it costs 5 % of a request's
        // instructions.
        if ticket != cachedTicket {
            cachedTicket = ticket
            sessionKey = nil
        }
        return snapshot.config.sessions.lookup(
            ticket, key: &sessionKey, now: context.sessionTimestamp(at: now), slides: true)
    }

    /// Determines the authority of the request. HTTP/1.1 requires exactly one `Host`, even with an absolute-form target
    /// (RFC 9112 §3.2).
    private func resolveAuthority(_ span: Span<UInt8>) -> Bool {
        var host: ByteRange?
        for field in head.fields where field.name == .host {
            guard host == nil else { return false }
            let range = field.valueRange
            guard Authority.isValid(span.extracting(range.start..<range.end)) else { return false }
            host = range
        }
        guard host != nil || protocolVersion != .http1_1 else { return false }
        if let authority = target.authority {
            host = ByteRange(start: head.target.start + authority.start, count: authority.count)
        }
        hostRange = host
        return true
    }

    private static let root: [UInt8] = [UInt8(ascii: "/")]
}

/// CSRF checks of cross-site requests, and CORS.
extension Exchange {
    /// Whether a request with a session cookie is cross-site. Evaluated before the session lookup, so a rejected
    /// request does not extend the session's idle timeout.
    var isFromAnotherSite: Bool {
        let policy = snapshot.config.crossSite
        let kind = crossSiteKind
        guard kind != .safe || policy.checksSafeRequests else { return false }
        return policy.rejects(
            kind, head, summary: summary,
            at: CrossSitePolicy.TargetOrigin(isSecure: peer.scheme == .https, authority: hostRange))
    }

    /// Whether a request for an account endpoint is cross-site. Sign-in changes state before a cookie exists: another
    /// site could sign the user in to a different account.
    func isFromAnotherSite(for endpoint: AccountEndpoint) -> Bool {
        guard summary.hasSessionCookie || crossSiteKind != .safe else { return false }
        return isFromAnotherSite
    }

    /// Upgrades are resolved later; here a requested upgrade is enough to apply the rule for tunnels.
    private var crossSiteKind: CrossSitePolicy.RequestKind {
        guard tunnel == .none, !summary.requestsWebSocket else { return .tunnel }
        return record.method.isSafe ? .safe : .unsafe
    }

    /// Records how the request's origin matches the CORS policy, for the response.
    /// - Returns: The response, if the request is a CORS preflight.
    func evaluateCORS(_ span: Span<UInt8>) -> RequestDecision? {
        let cors = snapshot.config.cors
        originMatch = cors.matchOrigin(of: head, summary: summary)
        guard record.method == .options, let asked = cors.preflight(head, summary: summary) else { return nil }
        let table = snapshot.config.routeTable
        // An empty method matches no route, so the table returns the methods of the path.
        guard case .methodNotAllowed(let methods) = match(table, method: span.extracting(0..<0), span) else {
            return nil
        }
        // A preflight is counted for the route it asks about.
        switch match(table, method: span.extracting(asked.start..<asked.end), span) {
        case .route(let index): record.routeIndex = index
        case .accountEndpoint: record.routeIndex = snapshot.config.routes.count
        case .notFound, .methodNotAllowed: break
        }
        let lines = cors.preflightLines(originMatch, head, methods: methods)
        let decision: ExchangeDecision = originMatch == .notAllowed ? .csrfRejected : .local
        // The preflight lines are complete; no further CORS fields are added to the response.
        originMatch = .notEvaluated
        return .preflight(lines, decision)
    }
}
