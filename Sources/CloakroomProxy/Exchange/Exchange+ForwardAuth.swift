import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Responses to another proxy, which asks whether it may forward a request.
///
/// Only ``approve(_:now:)`` makes a response that permits: every other one is turned into a denial that the proxy passes
/// on, whatever made it.
extension Exchange {
    /// Permits the request. The response has every field that a route can inject, with its value or empty, and the cookies
    /// that are not the gateway's: a field that is absent would let the copy of the client through.
    func approve(_ permit: UpstreamPermit, now: UInt64) {
        let config = snapshot.config
        let route = config.routes[permit.route]
        // Files and redirects are responses of the gateway. Of an upgrade that the route does not allow, the gateway would
        // forward the request alone; the proxy forwards all of it.
        guard let index = route.route.upstream, request.upgrade == .none || route.route.allowsWebSocket else {
            return respond(route.problem(.notFound), now: now)
        }
        telemetry.authorized(permit, for: route.route)
        let upstream = config.upstreams[index]
        let credentials = permit.credentials(upstream.claimHeaders) { assertionMoment }
        let encoder = UpstreamRequestEncoder(
            upstream: upstream, targetIndex: 0, credentials: credentials, permit: permit, config: config,
            context: context)
        var lines = encoder.injectedLines(&request, of: route, from: peer, requestID: telemetry.record.requestID)
        lines += config.forwardedFields.missing(in: lines.span, forEnvoy: peer.decidesFor == .envoy)
        send(LocalResponse(status: 200, title: Problem.title(of: 200), fieldLines: lines, body: [], date: context.date))
    }

    /// A request was rejected as one of another site. If nothing states its site, the proxy may omit the fields.
    func reportMissingOrigin(of proxy: ForwardAuthConfiguration.Proxy) {
        guard request.summary.origin == .absent, request.summary.fetchSite == .absent,
            !request.method.isSafe || request.upgrade != .none
        else { return }
        context.lacksOrigin(proxy)
    }

    /// The address of the original request, without its path. Its host is one of the configuration.
    var originalOrigin: String {
        let host = String(decoding: request.host ?? [], as: UTF8.self)
        return (isClientSecure ? "https://" : "http://") + host
    }
}

/// Decisions for another proxy, which forwards the request in its own spelling.
extension RequestDecider {
    /// Whether the target is a path in its normal form. The proxy would forward another one as it is, and its upstream
    /// could understand it differently.
    static func isInNormalForm(_ target: RequestTarget) -> Bool {
        !target.isPathRewritten && target.authority == nil && !target.isAsterisk && !target.path.isEmpty
    }

    /// Checks the fields of a request whose original was read, and its upgrade: proxies may forward the upgrade, whatever of
    /// it they ask with.
    /// - Returns: The response, if the client sends a field that only the gateway may set, in any spelling: proxies replace
    ///   the exact name only. Also if a field names another method, path or host, or if the client asks for another
    ///   protocol than WebSocket, or for that with another method than `GET` (RFC 6455 §4.1).
    @inline(never)
    func checkOriginal(_ request: inout InboundRequest) -> RequestDecision? {
        let upgrade = OriginalRequest.upgrade(in: request.head)
        if upgrade == .webSocket, request.method == .get { request.upgrade = .webSocketUpgrade }
        let isRejected = upgrade != .none && request.upgrade == .none
        guard isRejected || config.forwardedFields.rejects(request.head) else { return nil }
        return .problem(Self.rejected, .forbidden, allow: nil)
    }

    private static let rejected = ProblemDocument(Problem(.badRequest, status: 403))
}

extension LocalResponse {
    /// The response as a denial: with a status that the proxy passes on to the client.
    ///
    /// nginx passes on 401 and 403 only; all other statuses are an error there, and a status of success permits the request at
    /// each of them.
    func denying(for proxy: ForwardAuthConfiguration.Proxy) -> LocalResponse {
        guard status != 401, status != 403 else { return self }
        var response = self
        response.status = status != 303 ? 403 : proxy == .nginx ? 401 : 303
        response.title = Problem.title(of: response.status)
        return response
    }
}

extension ProblemDocument {
    /// The problem with a status that the proxy passes on.
    var denying: ProblemDocument {
        guard problem.status != 401, problem.status != 403 else { return self }
        return ProblemDocument(Problem(problem.code, status: 403, detail: problem.detail))
    }
}
