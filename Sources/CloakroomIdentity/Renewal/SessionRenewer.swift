public import CloakroomCore
import Synchronization
public import Tracing

/// Renews the tokens of sessions at the upstream that signs people in: one renewal at a time for a session in this
/// process, and by the store's leases one on all replicas.
///
/// Renewals run in tasks of their own. A request that goes away leaves them alone, and ``run()`` does not return before
/// they are over, for a refresh token that was spent and whose successor was not kept is a session lost.
public final class TokenRefresher: TokenRefreshing, CustomStringConvertible, CustomReflectable {
    /// Seconds after which trying again makes sense where the store is not there.
    static let retryAfterStore = 1

    let store: any SessionStore
    let client: any TokenClient
    let observer: any AccountObserver
    let limits: RefreshTimeouts
    let clock: @Sendable () -> Timestamp
    let leaseClock: @Sendable () -> Timestamp
    let sleep: @Sendable (Duration) async throws -> Void
    let register: Mutex<RefreshCoordinator>
    let spans: SpanFactory
    private let supportsRefresh: Bool
    /// Whose tokens `client` deals in; it is given those of no other source.
    let source: SessionSource
    private let nextWaiter = Atomic<UInt64>(0)

    /// Makes a renewer.
    /// - Parameters:
    ///   - canRenew: Whether the upstream has a call to renew tokens with: ``UpstreamTokenClient/supportsRefresh``.
    ///   - source: Whose tokens `client` deals in.
    ///   - clock: What time it is: by it tokens are judged.
    ///   - flightClock: A time that never goes back: by it leases are judged. Default: `clock`.
    ///   - tracer: Makes a span `refresh` for a renewal that began with a request that is sampled: below
    ///     ``ServiceContext/current``. Those that wait for it have no part in it.
    ///   - sleep: Lets a time pass; throws when its task is cancelled.
    public init(
        store: any SessionStore, client: any TokenClient, observer: any AccountObserver, supportsRefresh: Bool,
        source: SessionSource = .unknown, limits: RefreshTimeouts, bounds: RefreshLimits = RefreshLimits(),
        clock: @escaping @Sendable () -> Timestamp,
        leaseClock: (@Sendable () -> Timestamp)? = nil, tracer: (any Tracer)? = nil,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.store = store
        self.client = client
        self.observer = observer
        self.supportsRefresh = supportsRefresh
        self.source = source
        self.limits = limits
        self.clock = clock
        self.leaseClock = leaseClock ?? clock
        self.sleep = sleep
        spans = SpanFactory(tracer)
        register = Mutex(RefreshCoordinator(bounds))
    }

    /// How many renewals are under way.
    public var inFlightCount: Int { register.withLock { $0.inFlightCount } }
    /// How many requests wait for one.
    public var waiterCount: Int { register.withLock { $0.waiterCount } }

    /// Renews a session's tokens, or waits for whoever is doing so, for ``RefreshTimeouts/waiting`` at most.
    ///
    /// Where that comes to nothing for the time being, a session whose access token is good for a while yet goes on with
    /// it: only who needs another one is kept from theirs.
    public func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome {
        // Its tokens are of no other upstream's business; the decision about its next request ends it.
        guard session.source == source else { return .ended(.revoked) }
        guard supportsRefresh, session.isRefreshable else {
            return cause == .expired
                ? .active(session) : await endUnrefreshableSession(session, ticket: ticket, traceparent: traceparent)
        }
        let outcome = await startRefresh(session, ticket: ticket, cause: cause, traceparent: traceparent)
        switch outcome {
        case .unavailable, .storeUnavailable:
            guard cause == .expired, let end = session.tokens.accessTokenExpiresAt, clock() < end else {
                return outcome
            }
            // It may have been ended while this one waited.
            if case .missing(let reason) = store.lookup(ticket, now: leaseClock(), slides: false) {
                return .ended(reason)
            }
            return .active(session)
        case .active, .ended:
            return outcome
        }
    }

    /// Has a session's tokens renewed while requests go on. Does nothing while that is under way or has to rest.
    public func refreshInBackground(_ session: Session, ticket: SessionTicket) {
        guard supportsRefresh, session.isRefreshable, session.source == source else { return }
        let now = clock()
        guard let flight = register.withLock({ $0.begin(session, cause: .expired, now: now) }) else { return }
        start(flight, session, ticket: ticket, traceparent: nil)
    }

    /// Whether it may help to renew tokens that were refused.
    public func shouldRefreshAfterRejection(_ session: Session) -> Bool {
        let now = clock()
        return !register.withLock { $0.isWithinRetryInterval(session, now: now) }
    }

    private func startRefresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome {
        // Twice, for a flight that somebody else began may have been about the tokens before these.
        for _ in 0..<2 {
            if let newer = alreadyRefreshedSession(session, ticket: ticket) { return .active(newer) }
            switch await wait(session, ticket: ticket, cause: cause, traceparent: traceparent) {
            case .completed(.active(let same)) where same.hasTokens(of: session): continue
            case .completed(let outcome), .immediate(let outcome): return outcome
            }
        }
        return .active(session)
    }

    /// Many requests were sent with the same old tokens, and their refusals come in after the renewal.
    private func alreadyRefreshedSession(_ session: Session, ticket: SessionTicket) -> Session? {
        guard case .active(let current) = store.lookup(ticket, now: clock(), slides: false),
            current.isRefresh(of: session)
        else { return nil }
        return current
    }

    private func wait(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshCoordinator.WaitResult {
        let number = nextWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        return await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let now = clock()
                let admission = register.withLock { register -> RefreshCoordinator.Admission in
                    // Under the lock: whoever is cancelled after this is found among the waiters.
                    guard !Task.isCancelled else { return .result(RefreshCoordinator.busy) }
                    return register.join(session, cause: cause, waiter: waiter, number: number, now: now)
                }
                switch admission {
                case .joinedExisting: break
                case .started(let flight): start(flight, session, ticket: ticket, traceparent: traceparent)
                case .result(let outcome): waiter.resume(returning: .immediate(outcome))
                }
            }
        } onCancel: {
            register.withLock { $0.cancelWaiter(number, of: session.key) }?
                .resume(returning: .immediate(RefreshCoordinator.busy))
        }
    }

    /// Ends a session whose tokens were refused and cannot be renewed.
    private func endUnrefreshableSession(_ session: Session, ticket: SessionTicket, traceparent: String?) async
        -> RefreshOutcome
    {
        let start = clock()
        do {
            if try await store.end(ticket, reason: .refreshRejected, now: start) != nil {
                note(.rejected, session.key.id, since: start)
                await revoke(session.tokens, of: session.key.id, traceparent: traceparent)
                return .ended(.refreshRejected)
            }
            // Somebody else has ended it meanwhile: perhaps another request with the same refusal.
            guard case .missing(let reason) = try await store.load(ticket, now: clock()) else {
                return .ended(.refreshRejected)
            }
            return .ended(reason)
        } catch {
            return .storeUnavailable(retryAfter: Self.retryAfterStore)
        }
    }

    /// Waits until its task is cancelled, then does what ``shutdown(withSpan:)`` does.
    public func run() async {
        let (forever, continuation) = AsyncStream.makeStream(of: Never.self)
        for await _ in forever {}
        continuation.finish()
        await shutdown()
    }

    /// Lets no renewal begin any more and waits for those that are under way, also where its task is cancelled. Those
    /// that have not spent a refresh token yet end at their next step.
    /// - Parameter bound: How long to wait at most; `nil` is ``RefreshTimeouts/lease``: what a call takes, and keeping what
    ///   it brought.
    public func shutdown(within bound: Duration? = nil) async {
        let over = register.withLock { $0.stop() }
        let (sleep, bound) = (sleep, bound ?? limits.lease)
        // In a task that nobody cancels.
        await Task {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in over {} }
                group.addTask { try? await sleep(bound) }
                await group.next()
                group.cancelAll()
            }
        }.value
    }

    /// Says nothing of sessions.
    public var description: String { "SessionRenewer" }
    /// Shows no child: there are tokens below.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
