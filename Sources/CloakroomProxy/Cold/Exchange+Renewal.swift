import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Fresh tokens: before a request goes on whose session's tokens have ended, and after an upstream refused them.
extension Exchange {
    /// Up to so many bytes of a body are kept, so that the request can be sent again with another token.
    private static let replayLimit = 16_384

    /// How often a request is sent again at most.
    private static let mostReplays = 3

    /// Whether the request's body is known to be small.
    var isBodySmall: Bool {
        if case .length(let length) = framing { length <= Self.replayLimit } else { false }
    }

    /// The request waits until its session has other tokens.
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
            // Without a session the route may still be for everybody.
            if case .forward(let permit) = AuthDecision.decide(
                entry.access, at: index, now: context.timestamp(at: now), session: .missing(reason))
            {
                return isReplay ? replay(permit, now: now) : forward(permit, now: now)
            }
            record.decision = .unauthenticated
            // Nobody else clears this one: its ticket is dead for good, and only now did that come to light.
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

    /// The upstream refused the token that the gateway sent. The session is renewed and the request sent again, where it
    /// can be: the refusal stays between the two of us. Once, unless it is the clock that explains it.
    /// - Returns: Whether that is under way. Otherwise the upstream's answer is the client's.
    func refreshAndReplay() -> Bool {
        guard let permit, let session = permit.bearerSession, let ticket else { return false }
        tokenRejections += 1
        // A token that has come to its end meanwhile was refused for that: where tokens live for seconds and the upstream
        // is slow, it may happen twice.
        let hasEnded = session.hasAgedAccessToken(at: context.timestamp(at: context.now))
        guard tokenRejections == 1 || (tokenRejections <= Self.mostReplays && hasEnded),
            snapshot.config.refresher.shouldRefreshAfterRejection(session)
        else {
            return false
        }
        guard framing == .none || buffersForReplay, machine.tokenRejected() else {
            // This request is lost; the next one need not be.
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
        // Fresh: an old connection may have died just now, and a request that was sent again is not retried.
        lease(isFresh: true, now: now)
    }
}
