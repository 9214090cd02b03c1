import CloakroomCore
import Synchronization
import Tracing

extension SessionRenewer {
    /// Carries a flight out in a task of its own.
    func start(
        _ id: RenewalRegister.FlightID, _ session: Session, ticket: SessionTicket, traceparent: String?
    ) {
        let flight = FlightCrew(renewer: self, id: id, ticket: ticket, traceparent: traceparent, begunAt: clock())
        Task {
            await flight.fly(session)
            let now = clock()
            register.withLock { $0.leave(id, now: now) }
        }
    }

    func note(_ result: AccountEvent.RenewalResult, _ id: SessionID, since start: Timestamp) {
        observer.accountEvent(.renewal(result, id, duration: max(.zero, clock() - start)), from: RequestOrigin())
    }

    /// Makes tokens void that nobody needs any more, as well as that can be done.
    func revoke(_ tokens: SessionTokens, of id: SessionID, traceparent: String?) async {
        do {
            try await client.revoke(tokens, traceparent: traceparent)
        } catch {
            observer.accountEvent(.revokeFailed(id), from: RequestOrigin())
        }
    }
}

/// Carries one flight out: does what ``RenewalFlight`` says, tells it what came of that, and deals with the end.
private struct FlightCrew: Sendable {
    let renewer: SessionRenewer
    let id: RenewalRegister.FlightID
    let ticket: SessionTicket
    let traceparent: String?
    let begunAt: Timestamp

    private var key: SessionKey { id.session }
    private var store: any SessionStore { renewer.store }
    /// The flight's own time, which must not go back: by it a lease is judged.
    private var now: Timestamp { renewer.flightClock() }
    private var isStopping: Bool { renewer.register.withLock { $0.isStopping } }

    func fly(_ session: Session) async {
        await renewer.spans.within("refresh") { span in await fly(session, span) }
    }

    private func fly(_ session: Session, _ span: (any Span)?) async {
        let (result, lease) = await withTaskGroup { group in
            group.addTask { await expireWaiters() }
            let end = await toTheEnd(session)
            group.cancelAll()
            return end
        }
        span?.note(outcome: result.name, isError: result.isFailure)
        deal(with: result)
        if case .renewed(let renewed) = result, let lease {
            await renewUser(renewed, replacing: session.tokens, under: lease)
        }
        if let lease { await store.release(lease, of: key) }
        if case .ended(_, let unused?) = result {
            await renewer.revoke(unused, of: key.id, traceparent: traceparent)
        }
    }

    /// Every so often lets go of all who wait, so that nobody waits longer than that.
    private func expireWaiters() async {
        while true {
            guard (try? await renewer.sleep(renewer.limits.waiting)) != nil else { return }
            for waiter in renewer.register.withLock({ $0.expireWaiters(of: id) }) {
                waiter.resume(returning: .known(RenewalRegister.busy))
            }
        }
    }

    // MARK: - The way

    private func toTheEnd(_ session: Session) async -> (RenewalFlight.Result, RenewalLease?) {
        var flight = RenewalFlight(session, limits: renewer.limits, now: now)
        var action = RenewalFlight.Action.lease
        var hasSpent = false
        while true {
            if case .finish(let result, let lease) = action { return (result, lease) }
            do throws(SessionStoreError) {
                action = try await next(after: action, in: &flight, hasSpent: &hasSpent)
            } catch {
                action = flight.storeFailed(now: now)
            }
        }
    }

    private func next(
        after action: RenewalFlight.Action, in flight: inout RenewalFlight, hasSpent: inout Bool
    ) async throws(SessionStoreError) -> RenewalFlight.Action {
        switch action {
        case .lease:
            // Whoever has new tokens that are not kept yet goes first.
            guard hasSpent || store.mayBeginRenewals else { throw SessionStoreError(.unavailable) }
            let attempt = try await store.lease(key, for: renewer.limits.lease, now: now)
            return flight.leased(attempt, now: now)
        case .read:
            let lookup = try await store.reload(ticket, now: now)
            return flight.hasRead(lookup, now: now)
        case .wait(let pause):
            // Where nothing was spent there is nothing to wait for any more.
            guard hasSpent || !isStopping else { return .finish(.leaseTimeout, release: nil) }
            // Nobody cancels this task.
            try? await renewer.sleep(pause)
            return flight.waited(now: now)
        case .renew(let session):
            // A refresh token that is not spent now is good for the next process.
            guard !isStopping else { return flight.notRenewed(.unreachable, now: now) }
            hasSpent = true
            return await renew(session, in: &flight)
        case .save(let tokens, let session, let lease):
            let attempt = try await store.save(
                SessionRenewal(tokens: tokens), ticket: ticket, over: session, under: lease, now: now)
            return flight.saved(attempt, now: now)
        case .reject(let session, let lease):
            let attempt = try await store.reject(session, under: lease, now: now)
            return flight.rejected(attempt, now: now)
        case .finish:
            return action
        }
    }

    private func renew(_ session: Session, in flight: inout RenewalFlight) async -> RenewalFlight.Action {
        do {
            let tokens = try await renewer.client.renew(
                session.tokens, traceparent: traceparent, now: renewer.clock())
            return flight.renewed(tokens, now: now)
        } catch {
            return flight.notRenewed(error.kind, now: now)
        }
    }

    // MARK: - The end

    private func deal(with result: RenewalFlight.Result) {
        switch result {
        case .renewed(let session): land(.live(session), .success)
        case .coalesced(let session): land(.live(session), .coalesced)
        case .rejected: land(.ended(.refreshRejected), .rejected)
        // It ended for a reason that has an event of its own.
        case .ended(let reason, _): land(.ended(reason), nil)
        case .unavailable(.misconfigured(let reason)):
            renewer.observer.accountEvent(.identityMisconfigured(reason, in: .renew), from: RequestOrigin())
            land(.unavailable(status: 502, retryAfter: 1), .misconfigured)
        case .unavailable(.timedOut): land(.unavailable(status: 504, retryAfter: 1), .transient)
        case .unavailable: land(.unavailable(status: 502, retryAfter: 1), .transient)
        case .storeUnavailable:
            land(.storeUnavailable(retryAfter: SessionRenewer.retryAfterStore), .transient)
        case .leaseTimeout: land(RenewalRegister.busy, .leaseTimeout)
        }
    }

    private func land(
        _ outcome: RenewalOutcome, _ event: AccountEvent.RenewalResult?
    ) {
        if let event { renewer.note(event, key.id, since: begunAt) }
        let now = renewer.clock()
        let (waiters, answer) = renewer.register.withLock {
            $0.land(id, outcome, isTransient: event?.isTransient ?? false, isRenewed: event == .success, now: now)
        }
        for waiter in waiters { waiter.resume(returning: .landed(answer)) }
    }

    /// Fetches the user again with the new access token, and keeps what has changed. The lease is still held, so nobody
    /// renews meanwhile. Nothing depends on it: the next renewal tries again.
    /// - Parameter previous: The tokens before, which may still be valid.
    private func renewUser(
        _ session: Session, replacing previous: SessionTokens, under lease: RenewalLease
    ) async {
        guard !isStopping else { return }
        let fetched = try? await renewer.client.user(
            session.tokens, replacing: previous, traceparent: traceparent)
        // The data that is kept is from before these tokens. It goes to the client, so it must not contain them.
        let kept = session.user.json
        guard let json = fetched ?? (UserDocument.contains(session.tokens, in: kept) ? UserDocument.empty : nil),
            json != kept
        else { return }
        _ = try? await store.save(
            SessionRenewal(userJSON: json), ticket: ticket, over: session, under: lease, now: now)
    }
}

extension RenewalFlight.Result {
    /// What spans call it.
    fileprivate var name: String {
        switch self {
        case .renewed: "success"
        case .coalesced: "coalesced"
        case .rejected: "rejected"
        case .ended: "session_ended"
        case .unavailable(.misconfigured): "misconfigured"
        case .unavailable, .storeUnavailable: "transient"
        case .leaseTimeout: "lease_timeout"
        }
    }

    /// Whether something was not there that should be. A refusal is an answer.
    fileprivate var isFailure: Bool {
        switch self {
        case .renewed, .coalesced, .rejected, .ended: false
        case .unavailable, .storeUnavailable, .leaseTimeout: true
        }
    }
}
