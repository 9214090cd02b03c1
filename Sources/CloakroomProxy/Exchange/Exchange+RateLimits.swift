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
        if let route, permits(&request, on: route, now: now) { return nil }
        guard let rates = snapshot.config.rates else { return nil }
        let limits = route?.rate?.early ?? rates.everyRequest
        guard !limits.isEmpty else { return nil }
        let address = addressKey(of: &request, rates)
        return charge(limits, rates, &request, now: now) { limit, _ in limit.isOfRoute ? route?.rate?.key : address }
    }

    /// Charges most requests, to the only limit that is decided before the session. Behind trusted proxies the client is
    /// searched for in the fields of each request.
    /// - Returns: Whether it permits the request. Otherwise nothing was charged.
    private func permits(_ request: inout InboundRequest, on route: RouteRuntime, now: UInt64) -> Bool {
        guard let rate = route.rate, let limit = rate.earlyLimit else { return false }
        return limit._withUnsafeGuaranteedRef { limit in
            guard let key = limit.isOfRoute ? rate.key : peer.isTrusted ? nil : peer.rateKey,
                permits(&request, key, at: limit, now: now)
            else { return false }
            request.chargedLimits = 1
            return true
        }
    }

    /// Charges a request to a limit. Counts no reference: the limit has all that it needs.
    /// - Returns: Whether it permits the request. Otherwise nothing was charged.
    @inline(__always)
    private func permits(
        _ request: inout InboundRequest, _ key: RateKey, at limit: RateLimitRuntime, now: UInt64
    ) -> Bool {
        let charge = limit.charge(key, now: now)
        guard charge.wait == 0 else { return false }
        if charge.isEviction { context.rateTableFull(limit.table) }
        if case .always = limit.fields { request.rateLines += limit.fieldLines(charge) }
        limit.allowed.increment()
        return true
    }

    /// Charges a request to the limits of its route that are decided with the session, once it is known, and then
    /// records the use of the session: a rejected request is none. A rejection replaces the decision.
    @inline(never)
    func limitSession(_ decision: inout RequestDecision, _ config: ConfigSnapshot, now: UInt64) {
        guard let session = decision.limitedSession() else { return }
        if let session, permits(session, config, now: now) { return }
        if let rejection = limitAll(session, config, now: now) { decision = rejection }
    }

    /// Charges most requests, to the only limit that is decided with the session, and records the use. Not inlined, it
    /// gets the session as a parameter, which is not counted as a reference.
    /// - Returns: Whether it permits the request. Otherwise nothing was charged.
    @inline(never)
    private func permits(_ session: Session, _ config: ConfigSnapshot, now: UInt64) -> Bool {
        guard request.ticket != nil, let hash = config.rates?.hash,
            let rate = config.routes[request.routeIndex].rate, let limit = rate.lateLimit
        else { return false }
        return limit._withUnsafeGuaranteedRef { limit in
            guard
                let key = limit.isOfRoute ? rate.key : ticketKeys.rateKey(of: session, at: limit, hash: hash),
                permits(&request, key, at: limit, now: now)
            else { return false }
            recordUse(of: session, config, now: now)
            return true
        }
    }

    /// Records that a permitted request uses its session, unless that was done a short time ago.
    private func recordUse(of session: Session, _ config: ConfigSnapshot, now: UInt64) {
        let (sessions, time) = (config.sessions, context.sessionTime(at: now))
        guard sessions.isUseDue(of: session, now: time) else { return }
        if session.isBoundToDevice { sessions.recordUse(of: session, now: time) } else { recordUse(now: now) }
    }

    /// Records that a request uses the session of its ticket.
    func recordUse(now: UInt64) { if let ticket = request.ticket { _ = lookUp(ticket, now: now, slides: true) } }

    /// Charges a request to all limits of its route that are decided with the session.
    /// - Returns: The response, if one of them rejects it.
    @inline(never)
    private func limitAll(_ session: Session?, _ config: ConfigSnapshot, now: UInt64) -> RequestDecision? {
        guard let rates = config.rates, let route = config.routes[request.routeIndex].rate else { return nil }
        let rejection = charge(route.late, rates, &request, now: now) { limit, request in
            guard !limit.isConditional || limit.limit.counts(session) else { return nil }
            if limit.isOfRoute { return session == nil ? nil : route.key }
            // The session of a token has no place in the cache of keys.
            if let session,
                let key = request.ticket != nil
                    ? ticketKeys.rateKey(of: session, at: limit, hash: rates.hash)
                    : RateKey(session, at: limit.limit, hash: rates.hash)
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
        if let session { recordUse(of: session, config, now: now) } else { recordUse(now: now) }
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
            let charge = runtime.charge(subject, now: now)
            if charge.isEviction { context.rateTableFull(runtime.table) }
            guard charge.wait > 0 else {
                charged |= 1 &<< UInt16(truncatingIfNeeded: position)
                if case .always = runtime.fields { request.rateLines += runtime.fieldLines(charge) }
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
            return rejection(by: runtime, charge, route: request.routeIndex)
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
        by limit: RateLimitRuntime, _ charge: RateLimitTable.Charge, route index: Int
    ) -> RequestDecision {
        let lines = limit.fields != .none ? limit.fieldLines(charge) : []
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
            if let subject = key(limit, &request) { limit.refund(subject, now: now) }
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

extension RequestDecision {
    /// The session that limits count the request by, `nil` without one that permits it. No value if they do not count it.
    /// Inlined, it would copy the decision, and count the session twice.
    @inline(never)
    fileprivate func limitedSession() -> Session?? {
        switch self {
        case .forward(let permit): .some(permit.session)
        case .forwardAndRefresh(_, let found, _), .refresh(let found, _, _): found
        case .exchange(let pending): pending.session
        case .denied, .problem(_, .unauthenticated, _): .some(nil)
        default: nil
        }
    }
}
