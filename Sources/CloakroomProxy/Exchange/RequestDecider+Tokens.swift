import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Requests with `Authorization`, on routes that accept more than sessions: an access token, or a field that only the
/// upstream verifies.
///
/// The field alone decides. A session cookie is not read then, and an invalid token is not like none: otherwise a request
/// would have two identities. Pages of other sites cannot add the field without a preflight, but browsers add one with
/// Basic, Digest or Negotiate by themselves.
extension RequestDecider {
    static let varyByAuthorization = Array("Vary: Authorization\r\n".utf8)
    /// The maximum length of a token in bytes.
    private static let maxTokenLength = 8_192

    /// Decides about a request with the field, and about all requests of a route that accepts only tokens.
    @inline(never)
    func decideByField(_ request: inout InboundRequest, route index: Int, now: WallTime) -> RequestDecision {
        let entry = config.routes[index]
        request.ticket = nil
        guard request.summary.hasAuthorization else { return unauthorized(.noSession, request, entry) }
        guard let value = request.value(of: .authorization), !value.isEmpty else { return Self.problem(.badRequest) }
        // Schemes have any case (RFC 9110 §11.1).
        func isScheme(_ name: String) -> Bool {
            value.count >= name.utf8.count && zip(value, name.utf8).allSatisfy { $0 | 0x20 == $1 }
        }
        if entry.credentials == .pass {
            guard
                isScheme("bearer") || isScheme("dpop")
                    || !isFromAnotherSite(&request, allowsWebSocket: entry.route.allowsWebSocket)
            else { return .problem(entry.problem(.crossSite), .csrfRejected, allow: nil) }
            request.credential = "unverified"
            let decision = AuthDecision.decide(entry.access.passing, at: index, now: now, session: .missing(.noSession))
            return requestDecision(of: decision, request, route: index, now: now)
        }
        guard isScheme("bearer") else { return unauthorized(.noSession, request, entry) }
        guard (8...Self.maxTokenLength + 7).contains(value.count), value[6] == 0x20 else {
            return Self.problem(.badRequest)
        }
        request.credential = "bearer"
        let site = config.routeTable.groups.site(of: request.routeGroup)
        let field = Secret(bytes: value)
        if let known = config.tokens?.cached(field, site: site, now: now) {
            return authorize(request, route: index, token: known, now: now)
        }
        // `token68` (RFC 9110 §11.2). A token that was verified before is one.
        let isToken = value.dropFirst(7).allSatisfy {
            Byte.isToken($0) || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "=")
        }
        return isToken ? .verify(field, route: index) : Self.problem(.badRequest)
    }

    /// Decides about a request whose access token was verified.
    func authorize(
        _ request: borrowing InboundRequest, route index: Int, token outcome: RefreshOutcome, now: WallTime
    ) -> RequestDecision {
        if case .active(let session) = outcome { return authorize(request, route: index, refreshed: session, now: now) }
        let problem = if case .failed(let problem) = outcome { problem } else { Problem(.invalidToken) }
        let decision: ExchangeDecision =
            problem.status == 401 ? .unauthenticated : problem.status == 429 ? .rateLimited : .undecided
        let document = config.routes[index].problem(problem.code, retryAfter: problem.retryAfter)
        return .problem(document, decision, allow: nil)
    }

    /// The challenge of a route that accepts access tokens (RFC 6750 §3). It contains no reason.
    func bearerChallenge(for problem: Problem, at index: Int) -> [UInt8] {
        guard config.routes.indices.contains(index), config.routes[index].credentials.acceptsTokens,
            problem.status == 401 && problem.code != .stepUp || problem.code == .insufficientScope
        else { return [] }
        var line = "WWW-Authenticate: Bearer realm=\"cloakroom\""
        if problem.code != .unauthorized { line += ", error=\"\(problem.code.rawValue)\"" }
        if problem.code == .insufficientScope {
            let claim = config.routes[index].route.require.claims.first { $0.name == "scope" }
            let scopes = claim.map { $0.necessary.texts + $0.acceptable.texts } ?? []
            line += ", scope=\(JSONString.quoted(scopes.joined(separator: " ")))"
        }
        return Array((line + "\r\n").utf8)
    }
}
