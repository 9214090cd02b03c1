import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

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

    func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool, now: UInt64) {
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
        let (exchanger, store, ticket) = (snapshot.config.exchanger, snapshot.config.sessions, request.ticket)
        let timestamp = context.sessionTime(at: context.now)
        let traceparent = telemetry.traceContext?.traceparentText
        let calls = IdentityCallTime()
        runSuspended { () async -> ExchangeOutcome in
            let outcome = await IdentityCallTime.$current.withValue(calls) {
                await exchanger.exchange(
                    pending.session, ticket: ticket, upstream: pending.upstream, traceparent: traceparent)
            }
            guard case .active = outcome, let ticket else { return outcome }
            // The session may have ended meanwhile: its user has signed out, or an operator has ended it.
            switch try? await store.load(ticket, now: timestamp) {
            case .missing(let reason)?: return .ended(reason)
            case .active?: return outcome
            case .notCached?, nil: return .storeUnavailable(retryAfter: 1)
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
    /// In place of a refresh, the gateway signs in again with the name and the password of the request, if it has them. A
    /// token that was issued by another upstream is not refreshed. An exchanged one is dropped; if the session cannot
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
        let credentials = mayRefresh && exchanged == nil ? forgottenCredentials(of: session) : nil
        let mayHelp = ticket != nil || isDropped || credentials != nil
        guard replay.tokenRejected(hasAged: hasAged), mayHelp else { return false }
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
        } else if let credentials {
            verify(credentials, route: permit.route, isReplay: true)
        } else {
            refreshCompleted(.active(session), route: permit.route, isReplay: true, now: context.now)
        }
        return true
    }

    /// The name and the password of the request, if another sign-in with them may help.
    private func forgottenCredentials(of session: Session) -> Secret? {
        guard request.credential == .basic, let value = request.value(of: .authorization) else { return nil }
        let (config, field) = (snapshot.config, Secret(bytes: value))
        let site = config.routeTable.groups.site(of: request.routeGroup)
        let isForgotten = config.tokens?.forget(field, session, site: site, now: context.wallTime(at: context.now))
        return isForgotten == true ? field : nil
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
        if case .missing = lookup, request.credential == .bearer || request.credential == .dpop {
            return decider.authorize(
                request, route: permit.route, token: .failed(Problem(.invalidToken)), now: context.wallTime(at: now))
        }
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
