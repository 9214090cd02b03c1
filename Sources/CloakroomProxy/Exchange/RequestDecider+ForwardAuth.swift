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

    /// Checks the fields of a request whose original was read.
    /// - Returns: The response, if the client sends a field that only the gateway may set, in any spelling: proxies replace
    ///   the exact name only. Also if a field names another method or path.
    @inline(never)
    func checkOriginal(_ request: inout InboundRequest) -> RequestDecision? {
        if request.method == .get, OriginalRequest.opensWebSocket(request.head) { request.upgrade = .webSocketUpgrade }
        guard config.forwardedFields.rejects(request.head) else { return nil }
        return .problem(Self.spoofed, .forbidden, allow: nil)
    }

    private static let spoofed = ProblemDocument(Problem(.badRequest, status: 403))
}
