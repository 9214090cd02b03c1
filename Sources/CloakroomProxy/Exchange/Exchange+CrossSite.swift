import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

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
        return switch record.method {
        case .get, .head, .options, .trace: .safe
        case .post, .put, .patch, .delete, .connect, .other: .unsafe
        }
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
