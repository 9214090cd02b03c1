import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// CSRF checks of cross-site requests, and CORS.
extension RequestDecider {
    /// Whether a request with a session cookie, or with credentials that browsers add, is cross-site. Evaluated before the
    /// session lookup, so a rejected request does not extend the session's idle timeout.
    /// - Parameter signsIn: Whether the request may cause a sign-in, also if its method is safe.
    func isFromAnotherSite(
        _ request: inout InboundRequest, allowsWebSocket: Bool = false, isNavigation: Bool = false,
        signsIn: Bool = false
    ) -> Bool {
        let kind = Self.crossSiteKind(&request, allowsWebSocket: allowsWebSocket)
        guard kind != .safe || signsIn || config.crossSite.checksSafeRequests else { return false }
        // The proxy may have dropped the fields by which browsers report the origin.
        let hasOrigin = request.summary.origin != .absent || request.summary.fetchSite != .absent
        if decidesForProxy, kind != .safe, !hasOrigin { return true }
        return config.crossSite.rejects(
            signsIn && kind == .safe ? .unsafe : kind, request.head, summary: request.summary,
            at: CrossSitePolicy.TargetOrigin(isSecure: scheme == .https, authority: request.hostRange),
            isNavigation: isNavigation)
    }

    /// Whether a request for an account endpoint is cross-site. Sign-in changes state before a cookie exists: another
    /// site could sign the user in to a different account.
    func isFromAnotherSite(_ request: inout InboundRequest, for endpoint: AccountEndpoint) -> Bool {
        let isSafe = Self.crossSiteKind(&request) == .safe
        // Pages that browsers navigate to may be requested by a link on any site.
        guard !isSafe || request.summary.hasSessionCookie && !endpoint.isNavigation else { return false }
        guard endpoint == .device else { return isFromAnotherSite(&request, isNavigation: endpoint.isNavigation) }
        // The browser itself sends the request, to which no page can add a field.
        return isFromAnotherSite(&request, isNavigation: true) || !isSameOriginOrNoBrowser(&request)
    }

    /// Whether `Sec-Fetch-Site` is `same-origin` or absent. A trusted origin is another one.
    private func isSameOriginOrNoBrowser(_ request: inout InboundRequest) -> Bool {
        guard case .value(let site) = request.summary.fetchSite else { return request.summary.fetchSite == .absent }
        return request.head.copy(of: site) == Array("same-origin".utf8)
    }

    /// A requested upgrade that is not forwarded as one is an ordinary request: it is exempt from nothing.
    private static func crossSiteKind(
        _ request: inout InboundRequest, allowsWebSocket: Bool = false
    ) -> CrossSitePolicy.RequestKind {
        guard request.upgrade == .none, !(allowsWebSocket && request.isWebSocketHandshake) else { return .tunnel }
        return request.method.isSafe ? .safe : .unsafe
    }

    /// Stores how the request's origin matches the CORS policy, for the response.
    /// - Returns: The response, if the request is a CORS preflight.
    func evaluateCORS(_ request: inout InboundRequest, _ span: Span<UInt8>) -> RequestDecision? {
        let cors = config.cors
        request.originMatch = cors.matchOrigin(of: request.head, summary: request.summary)
        guard request.method == .options, let asked = cors.preflight(request.head, summary: request.summary) else {
            return nil
        }
        // An empty method matches no route, so the table returns the methods of the path.
        guard case .methodNotAllowed(let methods) = match(&request, method: span.extracting(0..<0), span) else {
            return nil
        }
        // A preflight is counted for the route it asks about.
        switch match(&request, method: span.extracting(asked.start..<asked.end), span) {
        case .route(let index): request.routeIndex = index
        case .accountEndpoint(let endpoint): request.routeIndex = routeIndex(of: endpoint, request)
        case .notFound, .methodNotAllowed: break
        }
        let lines = cors.preflightLines(request.originMatch, request.head, methods: methods)
        let decision: ExchangeDecision = request.originMatch == .notAllowed ? .csrfRejected : .local
        // The preflight lines are complete; no further CORS fields are added to the response.
        request.originMatch = .notEvaluated
        return .preflight(lines, decision)
    }
}
