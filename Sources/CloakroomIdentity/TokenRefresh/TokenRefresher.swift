public import CloakroomCore
import Synchronization
package import Tracing

/// Refreshes the tokens of sessions at the upstream or provider that issued them: at most one refresh per session at a
/// time in this process and, through leases of the store, across all replicas.
///
/// Refreshes run in tasks of their own. A cancelled request does not cancel the refresh, and ``run()`` does not return
/// before all refreshes have finished: if a refresh token is spent and its successor is not saved, the session is lost.
///
/// Folder `TokenRefresh/`: runs token refreshes, one per session at a time, and decides how many run, which requests
/// wait, and when a failed one is repeated.
public final class TokenRefresher: TokenRefreshing, Unprintable {
    /// `Retry-After` in seconds if the store is unavailable.
    static let retryAfterStore = 1

    let store: any SessionStore
    let clients: TokenClients
    let observer: any AccountObserver
    let limits: RefreshTimeouts
    let clock: @Sendable () -> WallTime
    let sessionClock: @Sendable () -> SessionTime
    let leaseClock: @Sendable () -> MonotonicTime
    let executor: @Sendable () -> (any TaskExecutor)?
    let sleep: @Sendable (Duration) async throws -> Void
    let register: Mutex<RefreshCoordinator>
    let spans: SpanFactory
    private let nextWaiter = Atomic<UInt64>(0)

    /// Creates a refresher.
    /// - Parameters:
    ///   - clients: The client of each source of sessions.
    ///   - clock: The wall clock by which tokens are evaluated.
    ///   - sessionClock: The clock of the store.
    ///   - leaseClock: The clock by which leases are evaluated.
    ///   - tracer: Creates a span `refresh` for a refresh that a sampled request started, as a child of
    ///     ``ServiceContext/current``. Requests that only wait for the refresh do not appear in it.
    ///   - executor: Where a refresh runs that begins now; `nil` is where other tasks run.
    ///   - sleep: Waits for a duration; throws when its task is cancelled.
    package init(
        store: any SessionStore, clients: TokenClients, observer: any AccountObserver,
        limits: RefreshTimeouts, bounds: RefreshLimits = .usual, clock: @escaping @Sendable () -> WallTime,
        sessionClock: @escaping @Sendable () -> SessionTime, leaseClock: @escaping @Sendable () -> MonotonicTime,
        tracer: (any Tracer)? = nil, executor: @escaping @Sendable () -> (any TaskExecutor)? = { nil },
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.store = store
        self.clients = clients
        self.observer = observer
        self.limits = limits
        self.clock = clock
        self.sessionClock = sessionClock
        self.leaseClock = leaseClock
        self.executor = executor
        self.sleep = sleep
        spans = SpanFactory(tracer: tracer)
        register = Mutex(RefreshCoordinator(bounds))
    }

    /// The number of refreshes in progress.
    public var inFlightCount: Int { register.withLock { $0.inFlightCount } }
    /// The number of requests that wait for a refresh.
    public var waiterCount: Int { register.withLock { $0.waiterCount } }

    /// Refreshes a session's tokens, or waits for the refresh in progress, for ``RefreshTimeouts/leaseWait`` at most.
    ///
    /// If the refresh fails temporarily, a session whose access token is still valid continues with it. Only requests
    /// that need a new access token fail.
    public func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome {
        // The tokens belong to a source that was removed. The decision about the next request ends the session.
        guard let client = clients[session.source] else { return .ended(.revoked) }
        guard client.supportsRefresh, session.isRefreshable else {
            guard cause != .expired else { return .active(session) }
            return await endUnrefreshableSession(session, with: client, ticket: ticket, traceparent: traceparent)
        }
        let outcome = await startRefresh(session, with: client, ticket: ticket, cause: cause, traceparent: traceparent)
        switch outcome {
        case .failed:
            guard cause == .expired, let end = session.tokens.accessTokenExpiresAt, clock() < end else {
                return outcome
            }
            // The session may have ended while this request waited.
            if case .missing(let reason) = store.lookup(ticket, now: sessionClock(), slides: false) {
                return .ended(reason)
            }
            return .active(session)
        case .active, .ended:
            return outcome
        }
    }

    /// Refreshes a session's tokens in the background. Does nothing if a refresh is in progress or in back-off.
    public func refreshInBackground(_ session: Session, ticket: SessionTicket) {
        guard let client = clients[session.source], client.supportsRefresh, session.isRefreshable else { return }
        let now = clock()
        guard let activeRefresh = register.withLock({ $0.begin(session, cause: .expired, now: now) }) else { return }
        start(activeRefresh, session, with: client, ticket: ticket, traceparent: nil)
    }

    /// Whether refreshing rejected tokens may help.
    public func shouldRefreshAfterRejection(_ session: Session) -> Bool {
        let now = clock()
        return !register.withLock { $0.isWithinRetryInterval(session, now: now) }
    }

    private func startRefresh(
        _ session: Session, with client: any TokenClient, ticket: SessionTicket, cause: RefreshTrigger,
        traceparent: String?
    ) async -> RefreshOutcome {
        // Twice, because the refresh that another request started may be the one that issued these tokens.
        for _ in 0..<2 {
            if let newer = alreadyRefreshedSession(session, ticket: ticket) { return .active(newer) }
            switch await wait(session, with: client, ticket: ticket, cause: cause, traceparent: traceparent) {
            case .completed(.active(let same)) where same.hasTokens(of: session): continue
            case .completed(let outcome), .immediate(let outcome): return outcome
            }
        }
        return .active(session)
    }

    /// The cached session, if its tokens are later than those of a request. Many requests may have been sent with the same
    /// tokens, and their rejections arrive after the refresh.
    private func alreadyRefreshedSession(_ session: Session, ticket: SessionTicket) -> Session? {
        guard case .active(let current) = store.lookup(ticket, now: sessionClock(), slides: false),
            current.isRefresh(of: session)
        else { return nil }
        return current
    }

    private func wait(
        _ session: Session, with client: any TokenClient, ticket: SessionTicket, cause: RefreshTrigger,
        traceparent: String?
    ) async -> RefreshCoordinator.WaitResult {
        let number = nextWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        let wait = JoinedWait()
        defer { wait.end() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let now = clock()
                let admission = register.withLock { register -> RefreshCoordinator.Admission in
                    // Under the lock: a request that is cancelled later is found among the waiters.
                    guard !Task.isCancelled else { return .result(RefreshCoordinator.busy) }
                    return register.join(session, cause: cause, waiter: waiter, number: number, now: now)
                }
                switch admission {
                case .joinedExisting: wait.begin()
                case .started(let activeRefresh):
                    start(activeRefresh, session, with: client, ticket: ticket, traceparent: traceparent)
                case .result(let outcome): waiter.resume(returning: .immediate(outcome))
                }
            }
        } onCancel: {
            register.withLock { $0.cancelWaiter(number, of: session.key) }?
                .resume(returning: .immediate(RefreshCoordinator.busy))
        }
    }

    /// Ends a session whose tokens were rejected and cannot be refreshed.
    private func endUnrefreshableSession(
        _ session: Session, with client: any TokenClient, ticket: SessionTicket, traceparent: String?
    ) async -> RefreshOutcome {
        let start = clock()
        do {
            if try await store.end(ticket, reason: .refreshRejected, now: sessionClock()) != nil {
                note(.rejected, of: session, since: start)
                await revoke(session.tokens, of: session.key.id, with: client, traceparent: traceparent)
                return .ended(.refreshRejected)
            }
            // The session has ended in the meantime, perhaps through another request with the same rejection.
            guard case .missing(let reason) = try await store.load(ticket, now: sessionClock()) else {
                return .ended(.refreshRejected)
            }
            return .ended(reason)
        } catch {
            return .storeUnavailable(retryAfter: Self.retryAfterStore)
        }
    }

    /// Waits until its task is cancelled, then does the same as ``shutdown(within:)``.
    public func run() async {
        let (forever, continuation) = AsyncStream.makeStream(of: Never.self)
        for await _ in forever {}
        continuation.finish()
        await shutdown()
    }

    /// Starts no more refreshes and waits for those in progress, even if its task is cancelled. Refreshes that have not
    /// spent a refresh token end at their next step.
    /// - Parameter bound: The maximum wait; `nil` is ``RefreshTimeouts/lease``, the time for a call and for saving its
    ///   result.
    public func shutdown(within bound: Duration? = nil) async {
        let over = register.withLock { $0.stop() }
        let (sleep, bound) = (sleep, bound ?? limits.lease)
        // Runs in an unstructured task, which is not cancelled with the caller.
        await Task { await over.end(within: bound, sleep: sleep) }.value
    }
}

/// The wait of a request for an identity call that another request started. Its time is that of the identity provider,
/// not of the gateway. The request that started the call has its time from the call itself: a task inherits
/// ``IdentityCallTime/current``.
final class JoinedWait: Sendable {
    private let startedAt = Mutex<ContinuousClock.Instant?>(nil)

    /// The request has joined the wait.
    func begin() { startedAt.withLock { $0 = .now } }

    /// Adds the wait to the time of the request, if it has begun.
    func end() {
        guard let startedAt = startedAt.withLock({ $0 }) else { return }
        IdentityCallTime.current?.add(nanoseconds: (ContinuousClock.now - startedAt).wholeNanoseconds)
    }
}
