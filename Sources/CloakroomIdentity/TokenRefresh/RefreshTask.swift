import CloakroomCore
import Synchronization
import Tracing

extension TokenRefresher {
    /// Runs a refresh in a task of its own.
    func start(
        _ id: RefreshCoordinator.RefreshID, _ session: Session, with client: any TokenClient, ticket: SessionTicket,
        traceparent: String?
    ) {
        let activeRefresh = RefreshTask(
            refresher: self, client: client, id: id, ticket: ticket, traceparent: traceparent, startedAt: clock())
        Task(executorPreference: executor()) { [self] in
            await activeRefresh.run(session)
            let now = clock()
            register.withLock { $0.finish(id, now: now) }
        }
    }

    func note(_ result: AccountEvent.RefreshResult, of session: Session, since start: WallTime) {
        observer.accountEvent(
            .tokenRefresh(result, session.id, duration: max(.zero, clock() - start)),
            from: AuditContext().about(session))
    }

    /// Revokes unused tokens, on a best-effort basis.
    func revoke(
        _ tokens: TokenSet, of id: SessionID, with client: any TokenClient, traceparent: String?
    ) async {
        do {
            try await client.revoke(tokens, traceparent: traceparent)
        } catch {
            observer.accountEvent(.revokeFailed(id), from: AuditContext())
        }
    }
}

/// Runs one refresh: performs the actions of ``TokenRefreshStateMachine``, passes it the results, and handles the outcome.
private struct RefreshTask: Sendable {
    let refresher: TokenRefresher
    let client: any TokenClient
    let id: RefreshCoordinator.RefreshID
    let ticket: SessionTicket
    let traceparent: String?
    let startedAt: WallTime

    private var key: SessionKey { id.session }
    private var store: any SessionStore { refresher.store }
    /// The monotonic time of the refresh, by which leases are evaluated.
    private var now: MonotonicTime { refresher.leaseClock() }
    private var isStopping: Bool { refresher.register.withLock { $0.isStopping } }

    func run(_ session: Session) async {
        await refresher.spans.withSpan("refresh") { span in await run(session, span) }
    }

    private func run(_ session: Session, _ span: (any Span)?) async {
        let (result, lease, foreign) = await withTaskGroup { group in
            group.addTask { await expireWaiters() }
            let end = await runToCompletion(session)
            group.cancelAll()
            return end
        }
        let event = complete(with: result, of: session)
        span?.setOutcome(outcome: event?.rawValue ?? "session_ended", isError: event?.isFailure ?? false)
        if let lease { await store.release(lease, of: key) }
        // After the waiting requests have their responses.
        if let unused = unusedTokens(after: result, foreign: foreign, of: session) {
            await refresher.revoke(unused, of: key.id, with: client, traceparent: traceparent)
        }
    }

    /// Resumes all waiters at a regular interval, so that no request waits longer than that.
    private func expireWaiters() async {
        while true {
            guard (try? await refresher.sleep(refresher.limits.leaseWait)) != nil else { return }
            for waiter in refresher.register.withLock({ $0.expireWaiters(of: id) }) {
                waiter.resume(returning: .immediate(RefreshCoordinator.busy))
            }
        }
    }

    /// The new tokens that no session has. If the upstream did not replace the refresh token, and the session did not
    /// end, the session still needs it.
    private func unusedTokens(
        after result: TokenRefreshStateMachine.Result, foreign: TokenSet?, of session: Session
    ) -> TokenSet? {
        switch result {
        case .rejected: foreign
        case .ended(_, let unused): unused ?? foreign
        default: foreign?.refreshToken == session.tokens.refreshToken ? nil : foreign
        }
    }

    // MARK: - Running

    /// - Returns: Also the new tokens that were of another user.
    private func runToCompletion(
        _ session: Session
    ) async -> (TokenRefreshStateMachine.Result, RefreshLease?, foreign: TokenSet?) {
        var activeRefresh = TokenRefreshStateMachine(session, limits: refresher.limits, now: now)
        var action = TokenRefreshStateMachine.Action.lease
        var hasSpent = false
        var foreign: TokenSet?
        while true {
            if case .finish(let result, let lease) = action { return (result, lease, foreign) }
            do throws(SessionStoreError) {
                action = try await next(after: action, in: &activeRefresh, hasSpent: &hasSpent, foreign: &foreign)
            } catch {
                action = activeRefresh.storeFailed(now: now)
            }
        }
    }

    private func next(
        after action: TokenRefreshStateMachine.Action, in activeRefresh: inout TokenRefreshStateMachine,
        hasSpent: inout Bool, foreign: inout TokenSet?
    ) async throws(SessionStoreError) -> TokenRefreshStateMachine.Action {
        switch action {
        case .lease:
            // A refresh whose new tokens are not saved yet has priority.
            guard hasSpent || store.allowsNewRefreshes(of: key) else { throw SessionStoreError(.unavailable) }
            let attempt = try await store.lease(key, for: refresher.limits.lease, now: refresher.sessionClock())
            return activeRefresh.leased(attempt, now: now)
        case .read:
            let lookup = try await store.reload(ticket, now: refresher.sessionClock())
            return activeRefresh.sessionRead(lookup, now: now)
        case .wait(let pause):
            // If no refresh token was spent, there is nothing to wait for.
            guard hasSpent || !isStopping else { return .finish(.leaseTimeout, release: nil) }
            // This task is never cancelled.
            try? await refresher.sleep(pause)
            return activeRefresh.waited(now: now)
        case .refresh(let session):
            // A refresh token that is not spent now remains valid for the next process.
            guard !isStopping else { return activeRefresh.refreshFailed(.unreachable, now: now) }
            hasSpent = true
            return await refresh(session, in: &activeRefresh, foreign: &foreign)
        case .save(let update, let session, let lease):
            let attempt = try await store.save(
                update, ticket: ticket, over: session, under: lease, now: refresher.sessionClock())
            return activeRefresh.saved(attempt, now: now)
        case .reject(let session, let lease):
            let attempt = try await store.reject(session, under: lease, now: refresher.sessionClock())
            return activeRefresh.rejected(attempt, now: now)
        case .finish:
            return action
        }
    }

    private func refresh(
        _ session: Session, in activeRefresh: inout TokenRefreshStateMachine, foreign: inout TokenSet?
    ) async -> TokenRefreshStateMachine.Action {
        do throws(TokenClientError) {
            var update = try await client.refresh(session, traceparent: traceparent, now: refresher.clock())
            do throws(TokenClientError) {
                try await addUser(to: &update, of: session, until: activeRefresh.userDeadline)
            } catch {
                foreign = update.tokens
                throw error
            }
            return activeRefresh.refreshed(update, now: now)
        } catch {
            foreign = error.foreign ?? foreign
            return activeRefresh.refreshFailed(error.kind, now: now)
        }
    }

    /// Fetches the user again with the new access token, for which the waiting requests wait up to three seconds.
    /// Nothing uses the token before: it may be of another user, whose data reject the refresh. Other failures are
    /// ignored: the next refresh tries again.
    private func addUser(
        to update: inout SessionUpdate, of session: Session, until deadline: MonotonicTime
    ) async throws(TokenClientError) {
        let refreshed = session.refreshed(with: update)
        if !isStopping, now <= deadline {
            do throws(TokenClientError) {
                let user = try await client.updatedUser(
                    of: refreshed, replacing: session.tokens, traceparent: traceparent)
                update.userJSON = user?.userJSON
                update.provenance = user?.provenance ?? update.provenance
            } catch {
                if error.kind == .rejected { throw error }
            }
        }
        // The stored user data is older than these tokens. It is sent to the client, so it must not contain them.
        let kept = session.user.json
        if update.userJSON == nil, UserDocument.contains(refreshed.tokens, in: kept) {
            update.userJSON = UserDocument.empty
        }
        if update.userJSON == kept { update.userJSON = nil }
        if update.provenance == session.provenance { update.provenance = nil }
    }

    // MARK: - Outcome

    /// - Returns: `nil` if the session ended for a reason that has an event of its own.
    private func complete(
        with result: TokenRefreshStateMachine.Result, of session: Session
    ) -> AccountEvent.RefreshResult? {
        if case .unavailable(let kind) = result {
            refresher.observer.note(TokenClientError(kind, in: .refresh), of: session.provenance?.identity)
        }
        let (outcome, event) = result.effects
        if let event { refresher.note(event, of: session, since: startedAt) }
        let now = refresher.clock()
        let (waiters, response) = refresher.register.withLock {
            $0.complete(id, outcome, isTransient: event?.isTransient ?? false, isRefreshed: event == .success, now: now)
        }
        for waiter in waiters { waiter.resume(returning: .completed(response)) }
        return event
    }
}

extension TokenRefreshStateMachine.Result {
    /// The outcome for the requests that wait, and the event.
    fileprivate var effects: (RefreshOutcome, AccountEvent.RefreshResult?) {
        switch self {
        case .refreshed(let session): (.active(session), .success)
        case .coalesced(let session): (.active(session), .coalesced)
        case .rejected: (.ended(.refreshRejected), .rejected)
        case .ended(let reason, _): (.ended(reason), nil)
        case .unavailable(.misconfigured): (.misconfigured(retryAfter: 1), .misconfigured)
        case .unavailable(let kind): (.failed(kind.tokenProblem), .transient)
        case .storeUnavailable: (.storeUnavailable(retryAfter: TokenRefresher.retryAfterStore), .transient)
        case .leaseTimeout: (RefreshCoordinator.busy, .leaseTimeout)
        }
    }
}

extension AccountEvent.RefreshResult {
    /// Whether a required service failed. A rejection is a valid response.
    fileprivate var isFailure: Bool { isTransient || self == .leaseTimeout }
}
