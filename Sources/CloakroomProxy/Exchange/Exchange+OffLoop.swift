import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Paths that leave the event loop: account endpoints, sessions that are not cached, and token refreshes. A request is
/// suspended meanwhile: nothing more is read for it. A long-lived response continues while its session is loaded.
extension Exchange {
    func runOffLoop<Result: Sendable>(
        _ work: @escaping @Sendable () async -> Result, resume: @escaping (Result) -> Void
    ) {
        OffLoop.run(
            on: context.eventLoop, snapshot: snapshot, span: telemetry.spanContext,
            executor: EventLoopExecutor.forLoop(context.index), work: work, resume: resume)
    }

    /// Runs the work that a request was suspended for.
    func runSuspended<Result: Sendable>(
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
    func suspend(on route: Int? = nil) -> Bool {
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
        // Before its body is complete: a large head costs a client of HTTP/2 a few bytes.
        guard countAddress() else { return respond(rejected(.address, nil, .tooManyRequests), now: now) }
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
        if config.devices != nil {
            accountRequest.device = DeviceFields(request.head, cookie: request.otherCookies.bound)
        }
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
            resumed(route: route) { wallTime in
                guard let lookup else { return nil }
                let found = decider.proven(lookup, &request, now: wallTime)
                if request.checked != nil { deviceChecked(now: context.now) }
                return decider.authorize(request, route: route, loaded: found, now: wallTime)
            }
        }
    }

    /// Continues a request whose session was loaded or token verified.
    /// - Parameter decide: Returns `nil` if the store failed.
    private func resumed(route index: Int, _ decide: (WallTime) -> RequestDecision?) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        // A request that waited for a connection has been counted.
        let isCounted = !request.awaitsLimit || self.route != nil
        guard var decision = decide(context.wallTime(at: now)) else {
            // A store failure does not end the session: respond with 503, not 401.
            if !isCounted { recordUse(now: now) }
            telemetry.failed(.storeUnavailable)
            return respond(snapshot.config.routes[index].problem(.storeUnavailable, retryAfter: 1), now: now)
        }
        if !isCounted { limitSession(&decision, snapshot.config, now: now) }
        execute(decision, now: now)
    }

    /// Verifies the access token of the client, or its name and password, before the request can be decided.
    /// - Parameter isReplay: Whether the upstream has rejected the token of an earlier sign-in.
    func verify(_ token: Secret, route index: Int, isReplay: Bool = false) {
        guard let tokens = snapshot.config.tokens else { return }
        let site = snapshot.config.routeTable.groups.site(of: request.routeGroup)
        let address = clientAddress
        // Sign-ins have a throttle.
        if request.credential != .basic, let outcome = tokens.limited(token, site: site, from: address) {
            let now = context.now
            var decision = decider.authorize(request, route: index, token: outcome, now: context.wallTime(at: now))
            if request.awaitsLimit { limitSession(&decision, snapshot.config, now: now) }
            return execute(decision, now: now)
        }
        guard suspend(on: index) else { return }
        let origin = AuditContext(peer: address, requestID: "\(telemetry.record.requestID)")
        let proof = request.credential == .dpop ? TokenProof(request.head, path: request.normalPath) : nil
        runSuspended {
            await tokens.verify(token, proof: proof, site: site, from: origin)
        } resume: { [self] outcome in
            if isReplay, case .active = outcome {
                guard machine.resume() == .proceed else { return }
                return refreshCompleted(outcome, route: index, isReplay: true, now: context.updateTime())
            }
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
            let lookup = currentSession(now: now, slides: isUsed)
            if isUsed, case .active(let session) = lookup, session.isBoundToDevice {
                snapshot.config.sessions.recordUse(of: session, now: context.sessionTime(at: now))
            }
            let found = admission(of: lookup, now: now)
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

    /// The session of a permitted request as it is now. That of an access token is in no store, and ends with the token, or
    /// when its provider is asked again and states so. The provider of the current configuration is asked: others may have
    /// new credentials.
    func currentSession(now: UInt64, slides: Bool) -> SessionLookup {
        if let ticket = request.ticket { return lookUp(ticket, now: now, slides: slides) }
        guard let session = permit?.session, context.sessionTime(at: now) < session.expiresAt else {
            return .missing(.expiredAbsolute)
        }
        let latest = tunnel?.tokenSession ?? session
        return context.snapshot.config.tokens?.lookup(latest, now: context.wallTime(at: now)) ?? .active(latest)
    }

    /// Whether the session of a long-lived response may still be used.
    private func admission(of lookup: SessionLookup, now: UInt64) -> SessionAdmission {
        // Those of names and passwords have no device, and the key of a token is proven by each request.
        if request.ticket != nil, let devices = snapshot.config.devices, case .active(let session) = lookup,
            devices.isOverdue(session, now: context.wallTime(at: now))
        {
            return .missing(.unproven)
        }
        return route?.rules.admit(lookup, now: context.wallTime(at: now)) ?? .missing(.noSession)
    }

    /// Loads the session of a long-lived response, because it is no longer cached. The response continues meanwhile.
    private func loadTunnelSession(now: UInt64) {
        let number = number
        guard let ticket = request.ticket else { return loadTunnelToken(number: number) }
        let store = snapshot.config.sessions
        let timestamp = context.sessionTime(at: now)
        runOffLoop {
            try? await store.load(ticket, now: timestamp)
        } resume: { [self] lookup in
            tunnelSessionLoaded(lookup, number: number)
        }
    }

    /// Asks the provider about the access token of a long-lived response. The response continues meanwhile.
    private func loadTunnelToken(number: UInt64) {
        guard let session = permit?.session, let tokens = context.snapshot.config.tokens else { return }
        let site = snapshot.config.routeTable.groups.site(of: request.routeGroup)
        let origin = AuditContext(peer: clientAddress, requestID: "\(telemetry.record.requestID)")
        runOffLoop {
            await tokens.load(session, site: site, from: origin)
        } resume: { [self] lookup in
            tunnelSessionLoaded(lookup, number: number)
        }
    }

    /// - Parameter lookup: `nil` if the store is unreachable, which ends no session, or the provider of a token.
    private func tunnelSessionLoaded(_ lookup: SessionLookup?, number: UInt64) {
        let now = context.updateTime()
        // The connection may be serving another request by now.
        guard self.number == number else { return }
        let isOver = lookup.map { admission(of: $0, now: now).endsResponse } ?? false
        let action = tunnel?.sessionLoaded(lookup, isOver: isOver)
        if case .close(let reason)? = action { endTunnel(reason) }
    }

    private func accountResponded(with response: AccountResponse) {
        guard machine.resume() == .proceed else { return }
        let now = context.updateTime()
        var lines: [UInt8] = []
        for field in response.fields { lines += Array("\(field.name): \(field.value)\r\n".utf8) }
        if let problem = response.problem {
            telemetry.rejected(problem.code, problem.reason, response.loginFailure)
            if problem.status >= 500 { telemetry.failed(Self.label(of: problem)) }
        }
        switch response.content {
        case .problem(let problem):
            respond(ProblemDocument(problem), moreFieldLines: lines, now: now)
        case .json(let body):
            lines += Array("Content-Type: application/json\r\nCache-Control: \(response.cacheControl)\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: body, now: now)
        case .html(let body, _):
            lines += Array("Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: body, now: now)
        case .none:
            lines += Array("Cache-Control: no-store\r\n".utf8)
            respond(status: response.status, fieldLines: lines, body: [], now: now)
        }
    }

    static func label(of problem: Problem) -> ExchangeErrorType {
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
