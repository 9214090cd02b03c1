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
    func renew(_ session: Session, ticket: SessionTicket, route: Int, cause: RenewalCause) {
        if cause == .expiry { machine.park() }
        downstream?.setDeadline(.max)
        let renewer = generation.tables.renewer
        let traceparent = trace.outgoing?.traceparentText
        ColdPathBridge.run(self, on: context.eventLoop) {
            await renewer.renew(session, ticket: ticket, cause: cause, traceparent: traceparent)
        } resume: { exchange, outcome in
            exchange.renewed(outcome, route: route, isReplay: cause == .refusal)
        }
    }

    private func renewed(_ outcome: RenewalOutcome, route index: Int, isReplay: Bool) {
        guard machine.resume() == .proceed else { return }
        renewed(outcome, route: index, isReplay: isReplay, now: context.beginEvent())
    }

    private func renewed(_ outcome: RenewalOutcome, route index: Int, isReplay: Bool, now: UInt64) {
        let entry = generation.tables.routes[index]
        switch outcome {
        case .live(let session):
            guard let permit = AuthDecision.permit(entry.access, at: index, renewed: session) else {
                return renewed(.ended(.revoked), route: index, isReplay: isReplay, now: now)
            }
            if isReplay { replay(permit, now: now) } else { forward(permit, now: now) }
        case .ended(let reason):
            // Without a session the route may still be for everybody.
            if case .forward(let permit) = AuthDecision.decide(
                entry.access, at: index, now: context.timestamp(at: now), session: .none(reason))
            {
                return isReplay ? replay(permit, now: now) : forward(permit, now: now)
            }
            record.decision = .unauthenticated
            // Nobody else clears this one: its ticket is dead for good, and only now did that come to light.
            let lines = reason == .refreshRejected ? generation.tables.cookieClearingLine : []
            answer(entry.unauthorized[reason], moreFieldLines: lines, now: now)
        case .unavailable(let status, let retryAfter):
            record.errorType = status == 504 ? .upstreamTimeout : .upstreamUnreachable
            answer(entry.problem(.unreachable, status: status, retryAfter: retryAfter), now: now)
        case .storeUnavailable(let retryAfter):
            record.errorType = .storeUnavailable
            answer(entry.problem(.storeUnavailable, retryAfter: retryAfter), now: now)
        }
    }

    /// The upstream refused the token that the gateway sent. The session is renewed and the request sent again, where it
    /// can be: the refusal stays between the two of us. Once, unless it is the clock that explains it.
    /// - Returns: Whether that is under way. Otherwise the upstream's answer is the client's.
    func renewAndReplay() -> Bool {
        guard let permit, let session = permit.bearerSession, let ticket else { return false }
        refusals += 1
        // A token that has come to its end meanwhile was refused for that: where tokens live for seconds and the upstream
        // is slow, it may happen twice.
        let hasEnded = session.hasAgedAccessToken(at: context.timestamp(at: context.now))
        guard refusals == 1 || (refusals <= Self.mostReplays && hasEnded), generation.tables.renewer.mayHelp(session)
        else {
            return false
        }
        guard framing == .none || keepsBody, machine.tokenRefused() else {
            // This request is lost; the next one need not be.
            let renewer = generation.tables.renewer
            ColdPathBridge.run(self, on: context.eventLoop) {
                _ = await renewer.renew(session, ticket: ticket, cause: .refusal, traceparent: nil)
            } resume: { _, _ in
            }
            return false
        }
        cancelUpstream()
        endRefusedAttempt()
        renew(session, ticket: ticket, route: permit.route, cause: .refusal)
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
