import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Requests that other sites make browsers send, and what other origins' pages may read.
extension Exchange {
    /// Whether a request that a cookie vouches for comes from another site. Asked before the session is looked up: such a
    /// request is no use of it.
    var isFromAnotherSite: Bool {
        let policy = snapshot.config.crossSite
        let kind = crossSiteKind
        guard kind != .safe || policy.checksSafeRequests else { return false }
        return policy.rejects(
            kind, head, summary: summary,
            at: CrossSitePolicy.TargetOrigin(isSecure: peer.scheme == .https, authority: hostRange))
    }

    /// The same of a request for an own endpoint. Signing in changes something before there is a cookie: another site could
    /// sign the user in as somebody else.
    func isFromAnotherSite(for endpoint: AccountEndpoint) -> Bool {
        guard summary.hasSessionCookie || crossSiteKind != .safe else { return false }
        return isFromAnotherSite
    }

    /// Whether a tunnel is opened is settled later; whoever asks for one is judged by it.
    private var crossSiteKind: CrossSitePolicy.RequestKind {
        guard tunnel == .none, !summary.requestsWebSocket else { return .tunnel }
        return switch record.method {
        case .get, .head, .options, .trace: .safe
        case .post, .put, .patch, .delete, .connect, .other: .unsafe
        }
    }

    /// Takes down who asks, for the answer.
    /// - Returns: The answer itself, if the request is a browser's question whether a page may ask.
    func evaluateCORS(_ span: Span<UInt8>) -> RequestDecision? {
        let cors = snapshot.config.cors
        originMatch = cors.matchOrigin(of: head, summary: summary)
        guard record.method == .options, let asked = cors.preflight(head, summary: summary) else { return nil }
        let table = snapshot.config.routeTable
        // No method is the empty one, so the table tells which ones the path has.
        guard case .methodNotAllowed(let methods) = match(table, method: span.extracting(0..<0), span) else {
            return nil
        }
        // It counts for the route that it asks about.
        switch match(table, method: span.extracting(asked.start..<asked.end), span) {
        case .route(let index): record.routeIndex = index
        case .accountEndpoint: record.routeIndex = snapshot.config.routes.count
        case .notFound, .methodNotAllowed: break
        }
        let lines = cors.preflightLines(originMatch, head, methods: methods)
        let decision: ExchangeDecision = originMatch == .notAllowed ? .csrfRejected : .local
        // All that is to be said is in the lines.
        originMatch = .notEvaluated
        return .preflight(lines, decision)
    }
}
