import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Requests with `Authorization`, on routes that accept more than sessions: an access token, a name and a password, or a
/// field that only the upstream verifies.
///
/// The field alone decides. A session cookie is not read then, and an invalid token is not like none: otherwise a request
/// would have two identities. Pages of other sites cannot add the field without a preflight, but browsers add one with
/// Basic, Digest or Negotiate by themselves.
extension RequestDecider {
    static let varyByAuthorization = Array("Vary: Authorization\r\n".utf8)
    static let proofFields = [Array("dpop".utf8)]
    /// The maximum length of a token in bytes.
    private static let maxTokenLength = 8_192

    /// Decides about a request with the field, and about all requests of a route that accepts no sessions.
    @inline(never)
    func decideByField(_ request: inout InboundRequest, route index: Int, now: WallTime) -> RequestDecision {
        let entry = config.routes[index]
        request.ticket = nil
        guard request.summary.hasAuthorization else { return unauthorized(.noSession, request, entry) }
        guard case .value(let range) = request.range(of: .authorization), range.count > 0 else {
            return Self.problem(.badRequest)
        }
        let site = config.routeTable.groups.site(of: request.routeGroup)
        let bytes = request.head.bytes
        let span = bytes.readableBytesUInt8Span.extracting(range.start..<range.end)
        if entry.credentials.acceptsTokens, let key = request.acceptedToken.key(of: span, site: site),
            let known = config.tokens?.cached(key, now: now)
        {
            request.credential = .bearer
            return authorize(request, route: index, token: known, now: now)
        }
        let value = request.head.copy(of: range)
        // Schemes have any case (RFC 9110 §11.1).
        func isScheme(_ name: String) -> Bool {
            value.count >= name.utf8.count && zip(value, name.utf8).allSatisfy { $0 | 0x20 == $1 }
        }
        if entry.credentials == .pass {
            guard
                isScheme("bearer") || isScheme("dpop")
                    || !isFromAnotherSite(&request, allowsWebSocket: entry.route.allowsWebSocket)
            else { return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil) }
            request.credential = .unverified
            let decision = AuthDecision.decide(entry.access.passing, at: index, now: now, session: .missing(.noSession))
            return requestDecision(of: decision, request, route: index, now: now)
        }
        let isBasic = entry.credentials.contains(.basic) && isScheme("basic")
        let isBound = entry.credentials.acceptsTokens && isScheme("dpop")
        guard isBasic || isBound || entry.credentials.acceptsTokens && isScheme("bearer") else {
            return unauthorized(.noSession, request, entry)
        }
        if isBasic, isFromAnotherSite(&request, allowsWebSocket: entry.route.allowsWebSocket, signsIn: true) {
            return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil)
        }
        // The scheme and a space.
        let start = isBasic ? 6 : isBound ? 5 : 7
        guard (start + 1...start + Self.maxTokenLength).contains(value.count), value[start - 1] == 0x20 else {
            return Self.problem(.badRequest)
        }
        request.credential = isBasic ? .basic : isBound ? .dpop : .bearer
        let field = Secret(bytes: isBound ? Array("Bearer ".utf8) + value.dropFirst(start) : value)
        // Each request with a token that is bound to a key has a proof of its own.
        if !isBound, let known = config.tokens?.cached(field, site: site, now: now) {
            if !isBasic, case .active(let session) = known {
                request.acceptedToken.keep(field, of: session, site: site)
            }
            return authorize(request, route: index, token: known, now: now)
        }
        // `token68` (RFC 9110 §11.2). A token that was verified before is one.
        let isToken = value.dropFirst(start).allSatisfy {
            Byte.isToken($0) || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "=")
        }
        return isToken ? .verify(field, route: index) : Self.problem(.badRequest)
    }

    /// Decides about a request whose access token, or name and password, was verified.
    func authorize(
        _ request: borrowing InboundRequest, route index: Int, token outcome: RefreshOutcome, now: WallTime
    ) -> RequestDecision {
        if case .active(let session) = outcome { return authorize(request, route: index, refreshed: session, now: now) }
        let problem = if case .failed(let problem) = outcome { problem } else { Problem(.invalidToken) }
        let decision: ExchangeDecision =
            problem.status == 401 ? .unauthenticated : problem.status == 429 ? .rateLimited : .undecided
        let entry = config.routes[index]
        let document =
            problem.reason.map { entry.unauthorized[$0] }
            ?? entry.problem(problem.code, status: problem.status, retryAfter: problem.retryAfter)
        return .problem(document, decision, allow: nil)
    }

    /// The challenges of a route that accepts more than sessions: those of its schemes.
    ///
    /// With the one of Basic, a browser asks its user for a password, which it then sends with requests that other sites
    /// cause too. It is for other clients only (RFC 7617).
    func challenges(for problem: Problem, to request: borrowing InboundRequest, now: WallTime) -> [UInt8] {
        let index = request.routeIndex
        guard config.routes.indices.contains(index), config.routes[index].credentials != .session else { return [] }
        let lines = tokenChallenges(for: problem, to: request, now: now)
        guard config.routes[index].credentials.contains(.basic), problem.status == 401, problem.code != .stepUp,
            request.summary.origin == .absent, request.summary.fetchSite == .absent, !request.fetchMetadata.hasMode
        else { return lines }
        return lines + Array("WWW-Authenticate: Basic realm=\"cloakroom\", charset=\"UTF-8\"\r\n".utf8)
    }

    /// The challenges of a route that accepts access tokens (RFC 6750 §3, RFC 9449 §7.1). They contain no reason. Clients
    /// with tokens that are bound to a key get a nonce for the next proof.
    private func tokenChallenges(for problem: Problem, to request: borrowing InboundRequest, now: WallTime) -> [UInt8] {
        let index = request.routeIndex
        guard config.routes[index].credentials.acceptsTokens,
            problem.status == 401 && problem.code != .stepUp || problem.code == .insufficientScope
        else { return [] }
        var error = problem.code == .unauthorized ? "" : ", error=\"\(problem.code.rawValue)\""
        if problem.code == .insufficientScope {
            let claim = config.routes[index].route.require.claims.first { $0.name == "scope" }
            let scopes = claim.map { $0.necessary.texts + $0.acceptable.texts } ?? []
            error += ", scope=\(JSONString.quoted(scopes.joined(separator: " ")))"
        }
        func line(_ scheme: String, _ isPresented: Bool) -> String {
            "WWW-Authenticate: \(scheme) realm=\"cloakroom\"\(isPresented ? error : "")"
        }
        let (isBound, isLacking) = (request.credential == .dpop, problem.status == 401)
        let bearer = isLacking || !isBound ? line("Bearer", !isBound) + "\r\n" : ""
        let site = config.routeTable.groups.site(of: request.routeGroup)
        guard isLacking || isBound, let nonce = config.tokens?.nonce(site: site, now: now) else {
            return Array(bearer.utf8)
        }
        let dpop = line("DPoP", isBound) + ", algs=\"ES256 EdDSA RS256\"\r\n"
        // That of the presented scheme is the first one: nginx passes on no other for the gateway.
        var lines = isBound ? dpop + bearer : bearer + dpop
        if isLacking { lines += "DPoP-Nonce: \(nonce)\r\n" }
        // Scripts of other origins could not read them otherwise.
        if case .allowed = request.originMatch {
            lines += "Access-Control-Expose-Headers: WWW-Authenticate, DPoP-Nonce\r\n"
        }
        return Array(lines.utf8)
    }
}
