import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Requests that other sites make browsers send, and what other origins' pages may read.
extension Exchange {
    /// Whether a request that a cookie vouches for comes from another site. Asked before the session is looked up: such a
    /// request is no use of it.
    var isFromAnotherSite: Bool {
        let policy = generation.tables.crossSite
        let kind = crossSiteKind
        guard kind != .safe || policy.judgesSafe else { return false }
        return policy.refuses(
            kind, head, marks: marks,
            at: CrossSitePolicy.Place(isSecure: peer.scheme == .https, authority: hostRange))
    }

    /// The same of a request for an own endpoint. Signing in changes something before there is a cookie: another site could
    /// sign the user in as somebody else.
    func isFromAnotherSite(for endpoint: OwnEndpoint) -> Bool {
        guard marks.hasOurCookie || crossSiteKind != .safe else { return false }
        return isFromAnotherSite
    }

    /// Whether a tunnel is opened is settled later; whoever asks for one is judged by it.
    private var crossSiteKind: CrossSitePolicy.Kind {
        guard tunnel == .none, !marks.wantsWebSocket else { return .tunnel }
        return switch record.method {
        case .get, .head, .options, .trace: .safe
        case .post, .put, .patch, .delete, .connect, .other: .unsafe
        }
    }

    /// Takes down who asks, for the answer.
    /// - Returns: The answer itself, if the request is a browser's question whether a page may ask.
    func settleCORS(_ span: Span<UInt8>) -> Disposition? {
        let cors = generation.tables.cors
        crossOrigin = cors.standing(of: head, marks: marks)
        guard record.method == .options, let asked = cors.preflight(head, marks: marks) else { return nil }
        let table = generation.tables.routeTable
        // No method is the empty one, so the table tells which ones the path has.
        guard case .methodNotAllowed(let methods) = match(table, method: span.extracting(0..<0), span) else {
            return nil
        }
        // It counts for the route that it asks about.
        switch match(table, method: span.extracting(asked.start..<asked.end), span) {
        case .route(let index): record.routeIndex = index
        case .own: record.routeIndex = generation.tables.routes.count
        case .notFound, .methodNotAllowed: break
        }
        let lines = cors.preflightLines(crossOrigin, head, methods: methods)
        let decision: ExchangeDecision = crossOrigin == .stranger ? .csrfRejected : .own
        // All that is to be said is in the lines.
        crossOrigin = .silent
        return .preflight(lines, decision)
    }
}
