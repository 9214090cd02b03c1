import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Paths that leave the event loop: account endpoints, sessions that are not cached, and token refreshes. A request is
/// suspended meanwhile: nothing more is read for it. A long-lived response continues while its session is loaded.
extension Exchange {
    private func runOffLoop<Result: Sendable>(
        _ work: @escaping @Sendable () async -> Result, resume: @escaping (Result) -> Void
    ) {
        OffLoop.run(
            on: context.eventLoop, snapshot: snapshot, span: telemetry.spanContext, work: work, resume: resume)
    }

    /// Runs the work that a request was suspended for.
    private func runSuspended<Result: Sendable>(
        _ work: @escaping @Sendable () async -> Result, resume: @escaping (Result) -> Void
    ) {
        awaitsWork = true
        runOffLoop(work) { [self] result in
            awaitsWork = false
            afterWork.take()?()
            resume(result)
        }
    }

    /// Suspends the request. It is in flight from here on, because it uses the session store or a provider: until that
    /// work is done, also if its client leaves.
    /// - Parameter route: Index of its route; `nil` for an account endpoint.
    /// - Returns: `false` if it exceeds the limit of its address, and was rejected.
    private func suspend(on route: Int? = nil) -> Bool {
        guard countAddress() else {
            let entry: RouteRuntime? = if let route { snapshot.config.routes[route] } else { nil }
            respond(rejected(.address, entry, .tooManyRequests), now: context.now)
            return false
        }
        machine.suspend()
        downstream?.setDeadline(.max)
        return true
    }

    /// Starts an account request: its body is collected first.
    func beginAccountRequest(_ endpoint: AccountEndpoint, now: UInt64) {
        if let problem = prepareAccountRequest(endpoint) {
            return respond(ProblemDocument(Problem(problem)), now: now)
        }
        machine.collect()
        if request.framing == .none {
            requestEnd()
        } else {
            downstream?.setDeadline(now &+ snapshot.timeouts.bodyIdle)
            askForBody()
        }
    }

    /// The account request is complete: it is handled off the event loop.
    func dispatchAccountRequest() {
        guard let endpoint = request.accountEndpoint, suspend() else { return }
        let config = snapshot.config
        // Not that of the head: a client that completes prepared requests later would be at an earlier time for the
        // throttle.
        let now = context.updateTime()
        var accountRequest = AccountRequest(
            endpoint: endpoint, name: request.lastSegment(after: config.accountsDepth + 1), query: request.query,
            loginCookies: endpoint.readsLoginCookies ? config.cookie.loginCookies(request.head) : [],
            fetchMetadata: request.fetchMetadata,
            userAgent: request.value(of: .userAgent).map { String(decoding: $0, as: UTF8.self) },
            // Servers of providers have no cookies.
            ticket: endpoint == .backChannel ? nil : request.ticket,
            authorization: request.value(of: .authorization).map { Secret(bytes: $0) },
            contentType: request.value(of: .contentType).map { String(decoding: $0, as: UTF8.self) },
            body: Secret(bytes: Array(replay.body.readableBytesView)),
            traceparent: telemetry.traceContext?.traceparentText,
            now: context.sessionTime(at: now), wallTime: context.wallTime(at: now),
            origin: AuditContext(peer: clientAddress, requestID: "\(telemetry.record.requestID)"))
        let group = request.routeGroup
        (accountRequest.routeGroup, accountRequest.site) = (group, config.routeTable.groups.site(of: group))
        if endpoint != .backChannel, request.ticket == nil {
            let tickets = config.cookie.tickets(request.head)
            accountRequest.endingTickets = tickets.map { config.ticket($0, ofGroup: group) }
        }
        context.returnRequestBuffer(replay.discard())
        let endpoints = config.accountEndpoints
        let calls = IdentityCallTime()
        runSuspended { [accountRequest] in
            await IdentityCallTime.$current.withValue(calls) { await endpoints.respond(accountRequest) }
        } resume: { [self] response in
            telemetry.identityCallsEnded(nanoseconds: calls.nanoseconds)
            accountResponded(with: response)
        }
    }

    /// Loads the session before the request can be decided.
    func loadSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        guard suspend(on: route) else { return }
        let store = snapshot.config.sessions
        let timestamp = context.sessionTime(at: now)
        runSuspended {
            try? await store.load(ticket, now: timestamp)
        } resume: { [self] lookup in
            resumed(route: route) { now in
                lookup.flatMap { decider.authorize(request, route: route, loaded: $0, now: now) }
            }
        }
    }

    /// Continues a request whose session was loaded or token verified.
    /// - Parameter decide: Returns `nil` if the store failed.
    private func resumed(route index: Int, _ decide: (WallTime) -> RequestDecision?) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        let entry = snapshot.config.routes[index]
        // A request that waited for a connection has been counted.
        let isCounted = !entry.limitsSessions || self.route != nil
        guard var decision = decide(context.wallTime(at: now)) else {
            // A store failure does not end the session: respond with 503, not 401.
            if !isCounted, let ticket = request.ticket { _ = lookUp(ticket, now: now, slides: true) }
            telemetry.failed(.storeUnavailable)
            return respond(entry.problem(.storeUnavailable, retryAfter: 1), now: now)
        }
        if !isCounted, let rejection = limitSession(decision, now: now) { decision = rejection }
        execute(decision, now: now)
    }

    /// Verifies the access token of the client before the request can be decided.
    func verify(_ token: Secret, route index: Int) {
        guard let tokens = snapshot.config.tokens, suspend(on: index) else { return }
        let site = snapshot.config.routeTable.groups.site(of: request.routeGroup)
        let origin = AuditContext(peer: clientAddress, requestID: "\(telemetry.record.requestID)")
        runSuspended {
            await tokens.verify(token, site: site, from: origin)
        } resume: { [self] outcome in
            resumed(route: index) { decider.authorize(request, route: index, token: outcome, now: $0) }
        }
    }

    /// The session's tokens were issued by another source: the session is ended, and the request is decided again
    /// without one.
    func endSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        guard suspend(on: route) else { return }
        let store = snapshot.config.sessions
        let timestamp = context.sessionTime(at: now)
        runSuspended {
            // The request continues without a session even if the store is unreachable.
            _ = try? await store.end(ticket, reason: .sourceRemoved, now: timestamp)
        } resume: { [self] _ in
            let lookup = SessionLookup.missing(SessionEndReason.sourceRemoved.unauthorizedReason)
            resumed(route: route) { decider.authorize(request, route: route, loaded: lookup, now: $0) }
        }
    }

    /// Executes what follows from a deadline of a long-lived response.
    /// - Returns: Whether the response continues or was ended here; `false` if its idle timeout has passed.
    func execute(_ action: Tunnel.DeadlineAction, now: UInt64) -> Bool {
        switch action {
        case .recheckSession(let isUsed):
            // Data from the client counts as use of its session.
            let found = admission(of: currentSession(now: now, slides: isUsed), now: now)
            let next = tunnel?.sessionLookedUp(found, at: context.sessionTime(at: now), now: now)
            return next.map { execute($0, now: now) } ?? false
        case .loadSession:
            setTunnelDeadline()
            loadTunnelSession(now: now)
        case .continue:
            setTunnelDeadline()
        case .timeOut:
            return false
        case .close(let reason):
            endTunnel(reason)
        }
        return true
    }

    /// The session of a permitted request as it is now. That of an access token is in no store, and ends with the token.
    private func currentSession(now: UInt64, slides: Bool) -> SessionLookup {
        if let ticket = request.ticket { return lookUp(ticket, now: now, slides: slides) }
        guard let session = permit?.session, context.sessionTime(at: now) < session.expiresAt else {
            return .missing(.expiredAbsolute)
        }
        return .active(session)
    }

    /// Whether the session of a long-lived response may still be used.
    private func admission(of lookup: SessionLookup, now: UInt64) -> SessionAdmission {
        route?.rules.admit(lookup, now: context.wallTime(at: now)) ?? .missing(.noSession)
    }

    /// Loads the session of a long-lived response, because it is no longer cached. The response continues meanwhile.
    private func loadTunnelSession(now: UInt64) {
        guard let ticket = request.ticket else { return }
        let store = snapshot.config.sessions
        let timestamp = context.sessionTime(at: now)
        let number = number
        runOffLoop {
            try? await store.load(ticket, now: timestamp)
        } resume: { [self] lookup in
            tunnelSessionLoaded(lookup, number: number)
        }
    }

    /// - Parameter lookup: `nil` if the store is unreachable, which ends no session.
    private func tunnelSessionLoaded(_ lookup: SessionLookup?, number: UInt64) {
        let now = context.updateTime()
        // The connection may be serving another request by now.
        guard self.number == number else { return }
        let isOver = lookup.map { admission(of: $0, now: now).endsResponse } ?? false
        if case .close(let reason)? = tunnel?.sessionLoaded(isOver: isOver) { endTunnel(reason) }
    }

    private func accountResponded(with response: AccountResponse) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        var lines: [UInt8] = []
        for field in response.fields { lines += Array("\(field.name): \(field.value)\r\n".utf8) }
        if let problem = response.problem {
            telemetry.rejected(problem.reason)
            if problem.status >= 500 { telemetry.failed(Self.label(of: problem)) }
        }
        switch response.content {
        case .problem(let problem):
            respond(ProblemDocument(problem), moreFieldLines: lines, now: now)
        case .json(let body):
            lines += Array("Content-Type: application/json\r\nCache-Control: no-store\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: body, now: now)
        case .html(let body, _):
            lines += Array("Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: body, now: now)
        case .none:
            lines += Array("Cache-Control: no-store\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: [], now: now)
        }
    }

    private static func label(of problem: Problem) -> ExchangeErrorType {
        switch problem.code {
        case .unreachable, .identityUnavailable: problem.status == 504 ? .upstreamTimeout : .upstreamUnreachable
        case .invalidResponse, .loginFailed: .upstreamInvalidResponse
        case .overloaded: .overloaded
        case .storeUnavailable: .storeUnavailable
        default: .internalError
        }
    }

    /// Address of the client of the request.
    var clientAddress: String {
        peer.clientAddress(of: request.head, trusted: snapshot.config.configuration.trustedProxies)
    }
}

/// Token refresh: before a request is forwarded whose session's tokens have expired, and after the upstream rejected a
/// token.
extension Exchange {
    /// Suspends the request until the session's tokens have been refreshed.
    func refresh(_ session: Session, ticket: SessionTicket, route: Int, cause: RefreshTrigger) {
        guard suspend(on: route) else { return }
        let refresher = snapshot.config.refresher
        let traceparent = telemetry.traceContext?.traceparentText
        let calls = IdentityCallTime()
        runSuspended {
            await IdentityCallTime.$current.withValue(calls) {
                await refresher.refresh(session, ticket: ticket, cause: cause, traceparent: traceparent)
            }
        } resume: { [self] outcome in
            guard machine.resume() == .proceed else { return }
            telemetry.tokensAwaited(nanoseconds: calls.nanoseconds)
            refreshCompleted(outcome, route: route, isReplay: cause == .rejected, now: context.updateTime())
        }
    }

    private func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool, now: UInt64) {
        let timestamp = context.wallTime(at: now)
        switch outcome {
        case .active(let session):
            let decision = decider.authorize(request, route: index, refreshed: session, now: timestamp)
            switch decision {
            case .forward(let permit): permitted(permit, isReplay: isReplay, now: now)
            case .exchange(let pending): exchange(pending, isReplay: isReplay)
            case .endSession: refreshCompleted(.ended(.revoked), route: index, isReplay: isReplay, now: now)
            default: execute(decision, now: now)
            }
        case .ended(let reason):
            // The ticket is permanently invalid, which was detected only now; no other 401 clears the cookie.
            let lines =
                reason == .refreshRejected ? snapshot.config.cookieClearingLine(ofGroup: request.routeGroup) : []
            switch decider.authorize(request, route: index, loaded: .missing(reason), now: timestamp) {
            // Without a session the route may still be public.
            case .forward(let permit): permitted(permit, isReplay: isReplay, now: now)
            case .denied(var denial):
                denial.fieldLines += lines
                deny(denial, now: now)
            default:
                telemetry.decided(.unauthenticated)
                respond(snapshot.config.routes[index].unauthorized[reason], moreFieldLines: lines, now: now)
            }
        case .failed(let problem):
            telemetry.failed(Self.label(of: problem))
            let route = snapshot.config.routes[index]
            respond(
                route.problem(problem.code, status: problem.status, retryAfter: problem.retryAfter), now: now)
        }
    }

    private func permitted(_ permit: UpstreamPermit, isReplay: Bool, now: UInt64) {
        if isReplay { sendReplay(permit, now: now) } else { forward(permit, now: now) }
    }

    /// Suspends the request until there is a token for its upstream (RFC 8693).
    /// - Parameter isReplay: Whether the upstream has rejected another token.
    func exchange(_ pending: PendingExchange, isReplay: Bool) {
        guard suspend(on: pending.route) else { return }
        let (exchanger, ticket) = (snapshot.config.exchanger, request.ticket)
        let traceparent = telemetry.traceContext?.traceparentText
        let calls = IdentityCallTime()
        runSuspended {
            await IdentityCallTime.$current.withValue(calls) {
                await exchanger.exchange(
                    pending.session, ticket: ticket, upstream: pending.upstream, traceparent: traceparent)
            }
        } resume: { [self] outcome in
            guard machine.resume() == .proceed else { return }
            telemetry.tokensAwaited(nanoseconds: calls.nanoseconds)
            exchangeCompleted(outcome, pending, isReplay: isReplay)
        }
    }

    private func exchangeCompleted(_ outcome: ExchangeOutcome, _ pending: PendingExchange, isReplay: Bool) {
        let now = context.updateTime()
        let failure: RefreshOutcome
        switch outcome {
        case .active(let token): return permitted(pending.permit(with: token), isReplay: isReplay, now: now)
        case .ended(let reason): failure = .ended(reason)
        case .failed(let problem): failure = .failed(problem)
        }
        refreshCompleted(failure, route: pending.route, isReplay: isReplay, now: now)
    }

    /// The upstream rejected the session's token. The tokens are refreshed and the request is sent again if possible,
    /// so the client does not see the 401. At most once, unless the token may have expired in transit.
    ///
    /// A token that was issued by another upstream is not refreshed. An exchanged one is dropped; if the session cannot
    /// be refreshed, as that of an access token, its token is exchanged again. The session does not end, because its own
    /// token was not rejected.
    /// - Returns: Whether that is in progress. Otherwise the upstream's response is forwarded to the client.
    func refreshAndReplay() -> Bool {
        guard let permit, let session = permit.bearerSession else { return false }
        let hasAged = session.hasAgedAccessToken(at: context.wallTime(at: context.now))
        let config = snapshot.config
        let exchanged = permit.exchangedToken
        let upstream = config.routes[permit.route].upstream
        let isDropped = exchanged.map { config.exchanger.drop($0, of: session, upstream: upstream) } ?? false
        let mayRefresh =
            exchanged == nil ? config.refreshes(session, rejectedBy: upstream) : session.isRefreshable
        let ticket = mayRefresh && config.refresher.shouldRefreshAfterRejection(session) ? request.ticket : nil
        guard replay.tokenRejected(hasAged: hasAged), ticket != nil || isDropped else { return false }
        guard replay.canReplay(request.framing), attempts.sends < RetryDecision.maxSends, machine.tokenRejected() else {
            // This request cannot be sent again, but the refresh benefits the next one.
            guard let ticket else { return false }
            runOffLoop {
                _ = await config.refresher.refresh(session, ticket: ticket, cause: .rejected, traceparent: nil)
            } resume: { _ in
            }
            return false
        }
        cancelUpstream()
        telemetry.endRejectedAttempt(status: 401)
        if let ticket {
            refresh(session, ticket: ticket, route: permit.route, cause: .rejected)
        } else {
            refreshCompleted(.active(session), route: permit.route, isReplay: true, now: context.now)
        }
        return true
    }

    /// Sends the request again with another token.
    private func sendReplay(_ permit: UpstreamPermit, now: UInt64) {
        telemetry.retried()
        attempts.replayed()
        pool?.upstream.metrics.replays.increment()
        // A new connection: a reused one may be closed already, which would take an attempt.
        forwardAgain(permit, isFresh: true, now: now)
    }

    /// A request that was prepared before is permitted again: it waits for a connection.
    func forwardAgain(_ permit: UpstreamPermit, isFresh: Bool = false, now: UInt64) {
        use(permit, now: now)
        machine.forwardAgain()
        lease(isFresh: isFresh, now: now)
    }

    /// Decides again if time has passed since the request was permitted, because its body or a connection was waited
    /// for: its session may have ended, or have other tokens.
    /// - Returns: The decision, if the request may not be sent now.
    func decisionInsteadOfSending() -> RequestDecision? {
        let now = context.now
        guard permittedAt != now, machine.waitsForConnection, let permit, permit.hasSession else { return nil }
        let lookup = currentSession(now: now, slides: false)
        if case .active(let session) = lookup, !permit.isOutdated(by: session) { return nil }
        switch decider.authorize(request, route: permit.route, loaded: lookup, now: context.wallTime(at: now)) {
        case .forward(let permit), .forwardAndRefresh(let permit, _, _):
            use(permit, now: now)
            return nil
        case let decision?: return decision
        // A store without a cache is not read twice for each request, and a request that waits does not begin to wait
        // anew each time.
        case nil:
            guard now &- permittedAt >= Self.trustedTime, !hasReloaded, let ticket = request.ticket else { return nil }
            hasReloaded = true
            return .loadSession(ticket, route: permit.route)
        }
    }

    /// How long a permit is valid if the session is not cached, in nanoseconds.
    private static let trustedTime: UInt64 = 1_000_000_000

    private func use(_ permit: UpstreamPermit, now: UInt64) {
        moveCount(to: permit)
        self.permit = permit
        permittedAt = now
    }
}
