import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Checks of a request whose authorization is decided.
extension RequestDecider {
    /// Charges a request whose fields are not evaluated, and reads what decides on its connection.
    /// - Parameter isInvalid: Whether the response is 400 or 501 unless a limit rejects the request.
    static func limitEarly(
        _ request: inout InboundRequest, isInvalid: Bool,
        _ limit: (inout InboundRequest, RouteRuntime?) -> RequestDecision?
    ) -> RequestDecision? {
        // The body of a request with `Expect` may not follow.
        if request.framing != .none, request.version != .http1_0,
            request.head.fields.contains(where: { $0.name == .expect })
        {
            request.summary.expectation = .continue
        }
        request.isInvalid = isInvalid
        return limit(&request, nil)
    }

    /// Prepares the request for its upstream: expectation, upgrade, forwarded fields.
    /// - Returns: The problem, if the request cannot be forwarded; ``ProblemCode/badRequest`` for an invalid WebSocket
    ///   handshake.
    func prepare(_ request: inout InboundRequest, for route: RouteRuntime) -> ProblemCode? {
        guard request.summary.expectation != .unknown else { return .expectationFailed }
        guard Self.resolveUpgrade(&request, allowsWebSocket: route.route.allowsWebSocket) else {
            return .notImplemented
        }
        if request.upgrade != .none {
            let writesKey = request.upgrade == .webSocketConnect
            guard WebSocketFields.settle(&request.head, writesKey: writesKey) else { return .badRequest }
        }
        if route.rewrite?.removedPrefix.isEmpty == false {
            request.forwardedPrefix = RequestHeaderPolicy.takeForwardedPrefix(from: &request.head)
        }
        if route.credentials == .pass {
            for index in request.head.fields.indices where request.head.fields[index].name == .authorization {
                request.head.fields[index].isStripped = false
            }
            config.requestPolicy.passOn(Self.proofFields, in: &request.head)
        }
        if !route.passedFields.isEmpty { config.requestPolicy.passOn(route.passedFields, in: &request.head) }
        // Clients' copies of fields that are set have been stripped.
        if let fields = route.requestFields, fields.removes {
            let bytes = request.head.bytes
            _ = fields.apply(to: &request.head.fields, bytes.readableBytesUInt8Span)
        }
        return nil
    }

    /// Resolves a requested upgrade and whether the route allows it.
    /// - Returns: Whether the request can be served.
    private static func resolveUpgrade(_ request: inout InboundRequest, allowsWebSocket: Bool) -> Bool {
        if request.upgrade == .none, request.isWebSocketHandshake { request.upgrade = .webSocketUpgrade }
        switch request.upgrade {
        case .none: return true
        case .webSocketUpgrade:
            // If the route does not allow WebSockets, the upgrade is ignored (RFC 9110 §7.8).
            if !allowsWebSocket { request.upgrade = .none }
            return true
        case .webSocketConnect: return allowsWebSocket
        case .unknown: return false
        }
    }

    /// Checks a request for an account endpoint, before its body is read.
    /// - Returns: The problem, if the request cannot be handled.
    func prepare(_ request: inout InboundRequest, for endpoint: AccountEndpoint) -> ProblemCode? {
        // Account endpoints support no tunnels.
        guard request.upgrade == .none else { return .notImplemented }
        guard request.summary.expectation != .unknown else { return .expectationFailed }
        guard !request.exceeds(endpoint.bodyLimit) else { return .contentTooLarge }
        request.accountEndpoint = endpoint
        return nil
    }
}
