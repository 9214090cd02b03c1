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
        return charge(limits, rates, &request, now: now) { $0.isOfRoute ? route?.rate?.key : address }
    }

    /// Charges a request to the limits of its route that are decided with the session, once it is known, and then
    /// records the use of the session: a rejected request is none. Only if the route has such limits.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    func limitSession(_ decision: RequestDecision, now: UInt64) -> RequestDecision? {
        let session: Session?
        switch decision {
        case .forward(let permit): session = permit.session
        case .forwardAndRefresh(_, let found, _), .refresh(let found, _, _): session = found
        case .exchange(let pending): session = pending.session
        // Without a session, or with one that does not permit the request.
        case .denied, .problem(_, .unauthenticated, _): session = nil
        default: return nil
        }
        guard let rates = snapshot.config.rates, let route = snapshot.config.routes[request.routeIndex].rate else {
            return nil
        }
        let address = addressKey(of: &request, rates)
        // The session of a token has no place in the cache of keys. Read here: `charge` has exclusive access to the request.
        let hasTicket = request.ticket != nil
        let rejection = charge(route.late, rates, &request, now: now) { runtime in
            guard !runtime.isConditional || runtime.limit.counts(session) else { return nil }
            guard let session else { return runtime.isOfRoute ? nil : address }
            if runtime.isOfRoute { return route.key }
            if runtime.isOfAccount, hasTicket {
                return ticketKeys.accountKey(of: session, at: runtime, rates)
            }
            return RateKey(session, at: runtime.limit, hash: rates.storage.hash) ?? address
        }
        if let rejection {
            // The limits by address protect the session store, which an invented cookie has used. The bucket of a route
            // is returned in any case, because all clients share it.
            refund(route.early, request.chargedLimits, rates, now: now) {
                $0.isOfRoute ? route.key : session == nil ? nil : address
            }
            return rejection
        }
        let time = context.sessionTime(at: now)
        if let session, !snapshot.config.sessions.isUseDue(of: session, now: time) { return nil }
        if let ticket = request.ticket { _ = lookUp(ticket, now: now, slides: true) }
        return nil
    }

    /// Charges a request to limits, and stores what the log and the response contain of them.
    /// - Parameter key: What a limit counts the request by; `nil` if it does not.
    /// - Returns: The response, if one of them rejects it.
    private func charge(
        _ limits: [RateLimitRuntime], _ rates: RateLimits, _ request: inout InboundRequest, now: UInt64,
        key: (RateLimitRuntime) -> RateKey?
    ) -> RequestDecision? {
        var charged: UInt16 = 0
        for position in limits.indices {
            let runtime = limits[position]
            guard let subject = key(runtime) else { continue }
            let charge = runtime.charge(subject, rates.table, now: now)
            if charge.isEviction { context.rateTableFull(rates) }
            guard charge.wait > 0 else {
                charged |= 1 << position
                if rates.fields == .always { request.rateLines += runtime.fieldLines(charge) }
                continue
            }
            request.limitIndex = runtime.index
            guard runtime.limit.isEnforced else {
                runtime.observed.increment()
                continue
            }
            runtime.rejected.increment()
            refund(limits, charged, rates, now: now, key: key)
            request.rateLines = []
            let lines = rates.fields != .none ? runtime.fieldLines(charge) : []
            let routes = snapshot.config.routes
            let message =
                routes.indices.contains(request.routeIndex)
                ? routes[request.routeIndex].route.messages[.rateLimited] : nil
            var document = runtime.document(message)
            document.problem.retryAfter = Int(clamping: RatePace.seconds(charge.wait))
            return .denied(Denial(response: .problem(document), decision: .rateLimited, fieldLines: lines))
        }
        for position in limits.indices where charged & 1 << position != 0 { limits[position].allowed.increment() }
        request.chargedLimits = charged
        return nil
    }

    /// Takes back what was charged.
    private func refund(
        _ limits: [RateLimitRuntime], _ charged: UInt16, _ rates: RateLimits, now: UInt64,
        key: (RateLimitRuntime) -> RateKey?
    ) {
        for position in limits.indices where charged & 1 << position != 0 {
            if let subject = key(limits[position]) { limits[position].refund(subject, rates.table, now: now) }
        }
    }

    /// The client as what a limit counts by: behind trusted proxies the one that they report. `inout` avoids a copy.
    private func addressKey(of request: inout InboundRequest, _ rates: RateLimits) -> RateKey {
        if peer.isTrusted,
            let client = ClientAddress.key(request.head, trusted: snapshot.config.configuration.trustedProxies)
        {
            return RateKey(client, hash: rates.storage.hash)
        }
        return peer.rateKey ?? RateKey(peer: peer.address, hash: rates.storage.hash)
    }
}
