import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Token refresh: before a request is forwarded whose session's tokens have expired, and after the upstream rejected a
/// token.
extension Exchange {
    /// Maximum size in bytes of a body that is kept for sending the request again with another token.
    private static let replayLimit = 16_384

    /// Maximum number of times that a request is sent again.
    private static let mostReplays = 3

    /// Whether the request body is known to be small.
    var isBodySmall: Bool {
        if case .length(let length) = framing { length <= Self.replayLimit } else { false }
    }

    /// Suspends the request until the session's tokens have been refreshed.
    func refresh(_ session: Session, ticket: SessionTicket, route: Int, cause: RefreshTrigger) {
        if cause == .expired { machine.suspend() }
        downstream?.setDeadline(.max)
        let refresher = snapshot.config.refresher
        let traceparent = trace.outgoing?.traceparentText
        OffLoop.run(self, on: context.eventLoop) {
            await refresher.refresh(session, ticket: ticket, cause: cause, traceparent: traceparent)
        } resume: { exchange, outcome in
            exchange.refreshCompleted(outcome, route: route, isReplay: cause == .rejected)
        }
    }

    private func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool) {
        guard machine.resume() == .proceed else { return }
        refreshCompleted(outcome, route: index, isReplay: isReplay, now: context.updateTime())
    }

    private func refreshCompleted(_ outcome: RefreshOutcome, route index: Int, isReplay: Bool, now: UInt64) {
        let entry = snapshot.config.routes[index]
        switch outcome {
        case .active(let session):
            guard let permit = AuthDecision.permit(entry.access, at: index, refreshed: session) else {
                return refreshCompleted(.ended(.revoked), route: index, isReplay: isReplay, now: now)
            }
            if isReplay { replay(permit, now: now) } else { forward(permit, now: now) }
        case .ended(let reason):
            // Without a session the route may still be public.
            if case .forward(let permit) = AuthDecision.decide(
                entry.access, at: index, now: context.timestamp(at: now), session: .missing(reason))
            {
                return isReplay ? replay(permit, now: now) : forward(permit, now: now)
            }
            record.decision = .unauthenticated
            // The ticket is permanently invalid, which was detected only now; no other response clears the cookie.
            let lines = reason == .refreshRejected ? snapshot.config.cookieClearingLine : []
            respond(entry.unauthorized[reason], moreFieldLines: lines, now: now)
        case .unavailable(let status, let retryAfter):
            record.errorType = status == 504 ? .upstreamTimeout : .upstreamUnreachable
            respond(entry.problem(.unreachable, status: status, retryAfter: retryAfter), now: now)
        case .storeUnavailable(let retryAfter):
            record.errorType = .storeUnavailable
            respond(entry.problem(.storeUnavailable, retryAfter: retryAfter), now: now)
        }
    }

    /// The upstream rejected the session's token. The tokens are refreshed and the request is sent again if possible,
    /// so the client does not see the 401. At most once, unless the token had expired meanwhile.
    /// - Returns: Whether that is in progress. Otherwise the upstream's response is forwarded to the client.
    func refreshAndReplay() -> Bool {
        guard let permit, let session = permit.bearerSession, let ticket else { return false }
        tokenRejections += 1
        // A token that expired in transit explains the rejection. With token lifetimes of seconds and a slow upstream
        // this may happen more than once.
        let hasEnded = session.hasAgedAccessToken(at: context.timestamp(at: context.now))
        guard tokenRejections == 1 || (tokenRejections <= Self.mostReplays && hasEnded),
            snapshot.config.refresher.shouldRefreshAfterRejection(session)
        else {
            return false
        }
        guard framing == .none || buffersForReplay, machine.tokenRejected() else {
            // This request cannot be sent again, but the refresh benefits the next one.
            let refresher = snapshot.config.refresher
            OffLoop.run(self, on: context.eventLoop) {
                _ = await refresher.refresh(session, ticket: ticket, cause: .rejected, traceparent: nil)
            } resume: { _, _ in
            }
            return false
        }
        cancelUpstream()
        endRejectedAttempt()
        refresh(session, ticket: ticket, route: permit.route, cause: .rejected)
        return true
    }

    private func replay(_ permit: UpstreamPermit, now: UInt64) {
        self.permit = permit
        record.retries += 1
        pool?.upstream.replays.increment()
        machine.replay()
        // A new connection: a reused one may be closed already, and a replayed request is not retried.
        lease(isFresh: true, now: now)
    }
}
