import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Rate limits: those by address are decided before the session is looked up, and those by route where none is required;
/// the others with the session. A request that one of them rejects is charged to none, with one exception: without a
/// session it stays charged to those by address.
extension Exchange {
    /// Charges a request to the limits that are decided before its session is looked up.
    /// - Parameter route: `nil` if none matched.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    func limitRate(_ request: inout InboundRequest, on route: RouteRuntime?, now: UInt64) -> RequestDecision? {
        guard let rates = snapshot.config.rates else { return nil }
        let limits = route?.rate?.early ?? rates.everyRequest
        guard !limits.isEmpty else { return nil }
        let address = addressKey(of: &request, rates)
        return charge(limits, rates, &request, now: now) { limit, _ in limit.isOfRoute ? route?.rate?.key : address }
    }

    /// Charges a request to the limits of its route that are decided with the session, once it is known, and then
    /// records the use of the session: a rejected request is none. Only if the route has such limits.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    func limitSession(_ decision: RequestDecision, _ config: ConfigSnapshot, now: UInt64) -> RequestDecision? {
        let session: Session?
        switch decision {
        case .forward(let permit): session = permit.session
        case .forwardAndRefresh(_, let found, _), .refresh(let found, _, _): session = found
        case .exchange(let pending): session = pending.session
        // Without a session, or with one that does not permit the request.
        case .denied, .problem(_, .unauthenticated, _): session = nil
        default: return nil
        }
        guard let rates = config.rates, let route = config.routes[request.routeIndex].rate else { return nil }
        // Most requests, without the closures of the function below: those count a dozen references.
        guard let limit = route.sessionLimit, let session, request.ticket != nil,
            limit._withUnsafeGuaranteedRef({ permits(session, $0, rates, now: now) })
        else { return limitAll(session, by: route, rates, config, now: now) }
        recordUse(of: session, in: config, now: now)
        return nil
    }

    /// Charges a request to the only limit of its route that is decided with the session.
    /// - Returns: Whether it permits the request. Otherwise nothing was charged.
    private func permits(_ session: Session, _ limit: RateLimitRuntime, _ rates: RateLimits, now: UInt64) -> Bool {
        guard let key = ticketKeys.rateKey(of: session, at: limit, hash: rates.hash) else { return false }
        let charge = limit.charge(key, rates.table, now: now)
        guard charge.wait == 0 else { return false }
        if charge.isEviction { context.rateTableFull(rates) }
        if case .always = rates.fields { request.rateLines += limit.fieldLines(charge) }
        limit.allowed.increment()
        return true
    }

    /// Records that a permitted request uses its session, unless that was done a short time ago.
    private func recordUse(of session: Session?, in config: ConfigSnapshot, now: UInt64) {
        let (sessions, time) = (config.sessions, context.sessionTime(at: now))
        if let session, !sessions.isUseDue(of: session, now: time) { return }
        if let session, session.isBoundToDevice {
            sessions.recordUse(of: session, now: time)
        } else if let ticket = request.ticket {
            _ = ticketKeys.lookup(ticket, in: sessions, now: time, slides: true)
        }
    }

    /// Charges a request to all limits of its route that are decided with the session.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    private func limitAll(
        _ session: Session?, by route: RouteRateLimits, _ rates: RateLimits, _ config: ConfigSnapshot, now: UInt64
    ) -> RequestDecision? {
        let hash = rates.hash
        let rejection = charge(route.late, rates, &request, now: now) { limit, request in
            guard !limit.isConditional || limit.limit.counts(session) else { return nil }
            if limit.isOfRoute { return session == nil ? nil : route.key }
            // The session of a token has no place in the cache of keys.
            if let session,
                let key = request.ticket != nil
                    ? ticketKeys.rateKey(of: session, at: limit, hash: hash)
                    : RateKey(session, at: limit.limit, hash: hash)
            {
                return key
            }
            return addressKey(of: &request, rates)
        }
        if let rejection {
            // The limits by address protect the session store, which an invented cookie has used. The bucket of a route
            // is returned in any case, because all clients share it.
            let charged = request.chargedLimits
            refund(route.early, charged, rates, &request, now: now) { limit, request in
                limit.isOfRoute ? route.key : session == nil ? nil : addressKey(of: &request, rates)
            }
            return rejection
        }
        recordUse(of: session, in: config, now: now)
        return nil
    }

    /// Charges a request to limits, and stores what the log and the response contain of them.
    /// - Parameter key: What a limit counts the request by; `nil` if it does not. It gets the request, to which this
    ///   function has exclusive access.
    /// - Returns: The response, if one of them rejects it.
    private func charge(
        _ limits: [RateLimitRuntime], _ rates: RateLimits, _ request: inout InboundRequest, now: UInt64,
        key: (RateLimitRuntime, inout InboundRequest) -> RateKey?
    ) -> RequestDecision? {
        var charged: UInt16 = 0
        let last = limits.count - 1
        for position in limits.indices {
            let runtime = limits[position]
            guard let subject = key(runtime, &request) else { continue }
            let charge = runtime.charge(subject, rates.table, now: now)
            if charge.isEviction { context.rateTableFull(rates) }
            guard charge.wait > 0 else {
                charged |= 1 &<< UInt16(truncatingIfNeeded: position)
                if case .always = rates.fields { request.rateLines += runtime.fieldLines(charge) }
                // No other one can reject the request any more. Most have only one.
                if position == last { runtime.allowed.increment() }
                continue
            }
            request.limitIndex = runtime.index
            guard runtime.limit.isEnforced else {
                runtime.observed.increment()
                continue
            }
            runtime.rejected.increment()
            refund(limits, charged, rates, &request, now: now, key: key)
            request.rateLines = []
            return rejection(by: runtime, charge, rates, route: request.routeIndex)
        }
        for position in 0..<max(last, 0) where charged & 1 << position != 0 {
            limits[position].allowed.increment()
        }
        request.chargedLimits = charged
        return nil
    }

    /// The response to a request that a limit rejects.
    @inline(never)
    private func rejection(
        by limit: RateLimitRuntime, _ charge: RateLimitTable.Charge, _ rates: RateLimits, route index: Int
    ) -> RequestDecision {
        let lines = rates.fields != .none ? limit.fieldLines(charge) : []
        let routes = snapshot.config.routes
        let message = routes.indices.contains(index) ? routes[index].route.messages[.rateLimited] : nil
        var document = limit.document(message)
        document.problem.retryAfter = Int(clamping: RatePace.seconds(charge.wait))
        return .denied(Denial(response: .problem(document), decision: .rateLimited, fieldLines: lines))
    }

    /// Takes back what was charged.
    @inline(never)
    private func refund(
        _ limits: [RateLimitRuntime], _ charged: UInt16, _ rates: RateLimits, _ request: inout InboundRequest,
        now: UInt64, key: (RateLimitRuntime, inout InboundRequest) -> RateKey?
    ) {
        for position in limits.indices where charged & 1 << position != 0 {
            let limit = limits[position]
            if let subject = key(limit, &request) { limit.refund(subject, rates.table, now: now) }
        }
    }

    /// The client as what a limit counts by: behind trusted proxies the one that they report. `inout` avoids a copy.
    private func addressKey(of request: inout InboundRequest, _ rates: RateLimits) -> RateKey {
        if peer.isTrusted,
            let client = ClientAddress.key(request.head, trusted: snapshot.config.configuration.trustedProxies)
        {
            return RateKey(client, hash: rates.hash)
        }
        return peer.rateKey ?? RateKey(peer: peer.address, hash: rates.hash)
    }
}
