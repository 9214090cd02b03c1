import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Rate limits: those by address and route are decided before the session is looked up, the others with the session. A
/// request that one of them rejects is charged to none.
extension Exchange {
    /// What the limits of a list have done with a request.
    private struct RateOutcome {
        /// The response, if a limit rejects the request.
        var rejection: RequestDecision?
        /// The limits that the request is charged to, by position.
        var charged: UInt16 = 0
        /// Index of a limit that is exceeded; -1 for none.
        var exceeded = -1
        var fieldLines: [UInt8] = []
    }

    /// Charges a request to the limits that need no session.
    /// - Parameter index: Index of the route; `nil` if none matched.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    func limitRate(_ request: inout InboundRequest, route index: Int?, now: UInt64) -> RequestDecision? {
        guard let rates = snapshot.config.rates else { return nil }
        let route = index.flatMap { snapshot.config.routes[$0].rate }
        let limits = route?.early ?? rates.everyRequest
        guard !limits.isEmpty else { return nil }
        let address = addressKey(of: request)
        let outcome = charge(limits, rates, now: now) { $0.isByRoute ? route?.key : address }
        request.chargedLimits = outcome.charged
        return report(outcome, in: &request)
    }

    /// Charges a request to the limits that depend on its session, once the session is known.
    /// - Parameter slides: Whether the use of the session still has to be recorded: a rejected request is none.
    /// - Returns: The decision, or the response if a limit rejects the request.
    @inline(never)
    func limitSession(_ decision: RequestDecision, slides: Bool, now: UInt64) -> RequestDecision {
        let session: Session?
        switch decision {
        case .forward(let permit): session = permit.session
        case .forwardAndRefresh(_, let found, _), .refresh(let found, _, _): session = found
        case .exchange(let pending, _): session = pending.session
        default: return decision
        }
        if let rates = snapshot.config.rates, let route = snapshot.config.routes[request.routeIndex].rate,
            !route.late.isEmpty
        {
            let outcome = charge(route.late, rates, now: now) { key(of: session, at: $0, on: route, rates) }
            if let rejection = report(outcome, in: &request) {
                refund(route.early, request.chargedLimits, rates) { $0.isByRoute ? route.key : addressKey(of: request) }
                return rejection
            }
        }
        if slides, session != nil, let ticket = request.ticket { _ = lookUp(ticket, now: now, slides: true) }
        return decision
    }

    /// - Parameter key: What a limit counts the request by; `nil` if it does not.
    private func charge(
        _ limits: [AppliedRateLimit], _ rates: RateLimits, now: UInt64, key: (RateLimitRuntime) -> RateKey?
    ) -> RateOutcome {
        var outcome = RateOutcome()
        for position in limits.indices {
            let runtime = limits[position].runtime
            guard let subject = key(runtime) else { continue }
            let charge = runtime.charge(subject, rates.table, now: now)
            if charge.isEviction { context.rateTableFull(rates) }
            if charge.wait == 0 {
                outcome.charged |= 1 << position
                runtime.counters.allowed.increment()
                if rates.fields == .always { outcome.fieldLines += runtime.fieldLines(charge) }
                continue
            }
            outcome.exceeded = runtime.index
            guard runtime.limit.isEnforced else {
                runtime.counters.observed.increment()
                continue
            }
            runtime.counters.rejected.increment()
            refund(limits, outcome.charged, rates, key: key)
            var lines = Array("Retry-After: \(RatePace.seconds(charge.wait))\r\n".utf8)
            if rates.fields != .none { lines += runtime.fieldLines(charge) }
            outcome.rejection = .denied(
                Denial(response: .problem(limits[position].document), decision: .rateLimited, fieldLines: lines))
            break
        }
        return outcome
    }

    /// Takes back what was charged.
    private func refund(
        _ limits: [AppliedRateLimit], _ charged: UInt16, _ rates: RateLimits, key: (RateLimitRuntime) -> RateKey?
    ) {
        for position in limits.indices where charged & 1 << position != 0 {
            let runtime = limits[position].runtime
            if let subject = key(runtime) { runtime.refund(subject, rates.table) }
        }
    }

    /// Keeps what the log and the response contain of it.
    private func report(_ outcome: RateOutcome, in request: inout InboundRequest) -> RequestDecision? {
        if outcome.exceeded >= 0 { request.limitIndex = outcome.exceeded }
        if outcome.rejection == nil {
            request.rateLines += outcome.fieldLines
        } else {
            request.rateLines = []
        }
        return outcome.rejection
    }

    /// What a limit counts a request by whose session is known; `nil` if it does not.
    private func key(
        of session: Session?, at runtime: RateLimitRuntime, on route: RouteRateLimits, _ rates: RateLimits
    ) -> RateKey? {
        var claim: RateKey?
        if runtime.dependsOnClaims {
            switch rates.claims.subject(of: session?.claims, at: runtime.index) {
            case .notCounted: return nil
            case .other: break
            case .claim(let key): claim = key
            }
        }
        let key: RateKey? =
            switch runtime.limit.subject {
            case .route: route.key
            case .session: session.map { RateKey(session: $0.id) }
            case .account: session.map { RateKey(accountOf: $0) }
            case .claim: claim
            case .address: nil
            }
        return key ?? addressKey(of: request)
    }

    /// The client as what a limit counts by: behind trusted proxies the one that they report.
    private func addressKey(of request: borrowing InboundRequest) -> RateKey {
        if peer.isTrusted,
            let client = ClientAddress.key(request.head, trusted: snapshot.config.configuration.trustedProxies)
        {
            return RateKey(client)
        }
        return peer.rateKey ?? RateKey(peer: peer.address)
    }
}

/// Which requests are charged to the rate limits that need no session.
extension RequestDecider {
    typealias RateCheck = (inout InboundRequest, _ route: Int?) -> RequestDecision?

    /// Charges a request to the rate limits that need no session.
    /// - Parameter found: `nil` if no route was searched.
    @inline(never)
    func limited(
        _ request: inout InboundRequest, _ found: RouteTable.Match?, _ limit: RateCheck
    ) -> RequestDecision? {
        guard config.limitsRates else { return nil }
        switch found {
        // Servers of providers end the sessions of many users from one address.
        case .accountEndpoint(.backChannel)?: return nil
        case .accountEndpoint(let endpoint)?:
            request.routeIndex = routeIndex(of: endpoint, request)
            return limit(&request, nil)
        case .route(let index)? where request.method != .trace:
            request.routeIndex = index
            return limit(&request, index)
        case .route?, .notFound?, .methodNotAllowed?, nil: return limit(&request, nil)
        }
    }
}
