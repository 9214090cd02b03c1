import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

extension Exchange {
    /// What is to be done with a request, before anything is done.
    enum Disposition {
        case forward(UpstreamPermit)
        case problem(ProblemDocument, ExchangeDecision, allow: String?)
        case own(OwnEndpoint)
        case loadSession(SessionTicket, route: Int)
        /// The session's tokens have ended.
        case renew(Session, SessionTicket, route: Int)
        /// The session holds tokens of another source than the route's upstream.
        case endSession(SessionTicket, route: Int)
        /// A browser asks what another origin's page may do: the field lines of the answer.
        case preflight([UInt8], ExchangeDecision)
        /// `OPTIONS *` (RFC 9110 §9.3.7), or an `OPTIONS` that goes no further.
        case allowEverything
    }

    /// Asks the pure types, in the order of the request path: target, host, route, session, decision, fields.
    func decide(now: UInt64) -> Disposition {
        let tables = generation.tables
        trace = ExchangeTrace()
        target = .empty
        marks = RequestHeaderPolicy.Marks()
        let bytes = head.bytes
        let span = bytes.readableBytesUInt8Span
        if record.method == .connect { return .problem(ProblemDocument(Problem(.notImplemented)), .none, allow: nil) }
        do throws(TargetRefusal) {
            target = try RequestTarget.parse(
                span.extracting(head.target.start..<head.target.end), scratch: &scratch)
        } catch {
            record.errorType = .invalidRequest
            return .problem(ProblemDocument(Problem(.badRequest)), .none, allow: nil)
        }
        guard takeHost(span) else {
            record.errorType = .invalidRequest
            return .problem(ProblemDocument(Problem(.badRequest)), .none, allow: nil)
        }
        if target.isAsterisk {
            guard record.method == .options else {
                return .problem(ProblemDocument(Problem(.badRequest)), .none, allow: nil)
            }
            return .allowEverything
        }
        takeTraceContext(span)
        let reading = tables.cookie.read(head)
        ticket = if case .ticket(let ticket) = reading { ticket } else { nil }
        marks = tables.requestPolicy.mark(&head, isTrusted: peer.isTrusted, reading: reading)
        // A client of HTTP/1.0 cannot mean it (RFC 9110 §10.1.1).
        if protocolVersion == .http1_0 { marks.expectation = .none }
        // It was to go no further than here (RFC 9110 §7.6.2).
        if marks.maxForwards == .value(0) { return .allowEverything }
        if tables.cors.isOn, let preflight = settleCORS(span) { return preflight }
        switch match(tables.routeTable, span) {
        case .notFound:
            // Nothing here is ever traced back to a client (RFC 9110 §9.3.8).
            guard record.method != .trace else {
                return .problem(ProblemDocument(Problem(.methodNotAllowed)), .none, allow: "")
            }
            return .problem(ProblemDocument(Problem(.notFound)), .none, allow: nil)
        case .methodNotAllowed(let allow):
            return .problem(ProblemDocument(Problem(.methodNotAllowed)), .none, allow: allow)
        case .own(let endpoint):
            record.routeIndex = tables.routes.count
            guard !isFromAnotherSite(for: endpoint) else {
                return .problem(ProblemDocument(Problem(.crossSite)), .csrfRejected, allow: nil)
            }
            return .own(endpoint)
        case .route(let index):
            // Not even where a route lists it (RFC 9110 §9.3.8).
            guard record.method != .trace else {
                return .problem(ProblemDocument(Problem(.methodNotAllowed)), .none, allow: "")
            }
            return decide(route: index, now: now)
        }
    }

    private func decide(route index: Int, now: UInt64) -> Disposition {
        let tables = generation.tables
        record.routeIndex = index
        let entry = tables.routes[index]
        if marks.hasOurCookie, entry.access.usesSession, isFromAnotherSite {
            return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil)
        }
        let decision = AuthDecision.decide(
            entry.access, at: index, now: context.timestamp(at: now), session: lookUp(now: now))
        return disposition(of: decision, route: index)
    }

    /// What a decision about a route's request comes to.
    func disposition(of decision: AuthDecision, route index: Int) -> Disposition {
        let entry = generation.tables.routes[index]
        switch decision {
        case .forward(let permit):
            return .forward(permit)
        case .forwardAndRenew(let permit, let session):
            if let ticket { generation.tables.renewer.renewSoon(session, ticket: ticket) }
            return .forward(permit)
        case .renew(let session):
            guard let ticket else {
                return .problem(entry.unauthorized[.noSession], .unauthenticated, allow: nil)
            }
            return .renew(session, ticket, route: index)
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
            let path = scratch
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
        guard let ticket else { return .none(.noSession) }
        // A connection's requests mostly carry the same cookie: its hash is a twentieth of a request's instructions.
        if ticket != hashedTicket {
            hashedTicket = ticket
            sessionKey = nil
        }
        return generation.tables.sessions.find(
            ticket, key: &sessionKey, now: context.sessionTime(at: now), slides: true)
    }

    /// Finds the one authority of the request. HTTP/1.1 wants exactly one `Host`, even beside an absolute target
    /// (RFC 9112 §3.2).
    private func takeHost(_ span: Span<UInt8>) -> Bool {
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
