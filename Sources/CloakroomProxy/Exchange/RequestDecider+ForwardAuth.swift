import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Decisions for another proxy, which forwards the request in its own spelling.
extension RequestDecider {
    /// Whether the target is a path in its normal form. The proxy would forward another one as it is, and its upstream
    /// could understand it differently.
    static func isInNormalForm(_ target: RequestTarget) -> Bool {
        !target.isPathRewritten && target.authority == nil && !target.isAsterisk && !target.path.isEmpty
    }

    /// Checks the fields of a request whose original was read, and whether it opens a WebSocket: proxies may forward the
    /// upgrade, whatever of it they ask with.
    /// - Returns: The response, if the client sends a field that only the gateway may set, in any spelling: proxies replace
    ///   the exact name only. Also if a field names another method or path, or if the request asks for a WebSocket with
    ///   another method than `GET` (RFC 6455 §4.1).
    @inline(never)
    func checkOriginal(_ request: inout InboundRequest) -> RequestDecision? {
        let (asksForSocket, isGet) = (request.summary.requestsWebSocket, request.method == .get)
        if isGet, asksForSocket || OriginalRequest.opensWebSocket(request.head) { request.upgrade = .webSocketUpgrade }
        guard asksForSocket && !isGet || config.forwardedFields.rejects(request.head) else { return nil }
        return .problem(Self.rejected, .forbidden, allow: nil)
    }

    private static let rejected = ProblemDocument(Problem(.badRequest, status: 403))
}
