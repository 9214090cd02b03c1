public import CloakroomCore
import Synchronization
public import Tracing

/// Renews the tokens of sessions at the upstream that signs people in: one renewal at a time for a session in this
/// process, and by the store's leases one on all replicas.
///
/// Renewals run in tasks of their own. A request that goes away leaves them alone, and ``run()`` does not return before
/// they are over, for a refresh token that was spent and whose successor was not kept is a session lost.
public final class SessionRenewer: SessionRenewing, CustomStringConvertible, CustomReflectable {
    /// Seconds after which trying again makes sense where the store is not there.
    static let retryAfterStore = 1

    let store: any SessionStore
    let client: any TokenClient
    let observer: any AccountObserver
    let limits: RenewalLimits
    let clock: @Sendable () -> Timestamp
    let flightClock: @Sendable () -> Timestamp
    let sleep: @Sendable (Duration) async throws -> Void
    let register: Mutex<RenewalRegister>
    let spans: ChildSpans
    private let canRenew: Bool
    /// Whose tokens `client` deals in; it is given those of no other source.
    let source: SessionSource
    private let nextWaiter = Atomic<UInt64>(0)

    /// Makes a renewer.
    /// - Parameters:
    ///   - canRenew: Whether the upstream has a call to renew tokens with: ``UpstreamTokenClient/canRenew``.
    ///   - source: Whose tokens `client` deals in.
    ///   - clock: What time it is: by it tokens are judged.
    ///   - flightClock: A time that never goes back: by it leases are judged. Default: `clock`.
    ///   - tracer: Makes a span `refresh` for a renewal that began with a request that is sampled: below
    ///     ``ServiceContext/current``. Those that wait for it have no part in it.
    ///   - sleep: Lets a time pass; throws when its task is cancelled.
    public init(
        store: any SessionStore, client: any TokenClient, observer: any AccountObserver, canRenew: Bool,
        source: SessionSource = .unknown, limits: RenewalLimits, bounds: RenewalBounds = RenewalBounds(),
        clock: @escaping @Sendable () -> Timestamp,
        flightClock: (@Sendable () -> Timestamp)? = nil, tracer: (any Tracer)? = nil,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.store = store
        self.client = client
        self.observer = observer
        self.canRenew = canRenew
        self.source = source
        self.limits = limits
        self.clock = clock
        self.flightClock = flightClock ?? clock
        self.sleep = sleep
        spans = ChildSpans(tracer)
        register = Mutex(RenewalRegister(bounds))
    }

    /// How many renewals are under way.
    public var flightCount: Int { register.withLock { $0.flightCount } }
    /// How many requests wait for one.
    public var waiterCount: Int { register.withLock { $0.waiterCount } }

    /// Renews a session's tokens, or waits for whoever is doing so, for ``RenewalLimits/waiting`` at most.
    ///
    /// Where that comes to nothing for the time being, a session whose access token is good for a while yet goes on with
    /// it: only who needs another one is kept from theirs.
    public func renew(
        _ session: Session, ticket: SessionTicket, cause: RenewalCause, traceparent: String?
    ) async -> RenewalOutcome {
        // Its tokens are of no other upstream's business; the decision about its next request ends it.
        guard session.source == source else { return .ended(.revoked) }
        guard canRenew, session.isRenewable else {
            return cause == .expiry ? .live(session) : await giveUp(session, ticket: ticket, traceparent: traceparent)
        }
        let outcome = await fly(session, ticket: ticket, cause: cause, traceparent: traceparent)
        switch outcome {
        case .unavailable, .storeUnavailable:
            guard cause == .expiry, let end = session.tokens.accessExpiresAt, clock() < end else { return outcome }
            // It may have been ended while this one waited.
            if case .none(let reason) = store.find(ticket, now: flightClock(), slides: false) { return .ended(reason) }
            return .live(session)
        case .live, .ended:
            return outcome
        }
    }

    /// Has a session's tokens renewed while requests go on. Does nothing while that is under way or has to rest.
    public func renewSoon(_ session: Session, ticket: SessionTicket) {
        guard canRenew, session.isRenewable, session.source == source else { return }
        let now = clock()
        guard let flight = register.withLock({ $0.begin(session, cause: .expiry, now: now) }) else { return }
        start(flight, session, ticket: ticket, traceparent: nil)
    }

    /// Whether it may help to renew tokens that were refused.
    public func mayHelp(_ session: Session) -> Bool {
        let now = clock()
        return !register.withLock { $0.isTooSoon(session, now: now) }
    }

    private func fly(
        _ session: Session, ticket: SessionTicket, cause: RenewalCause, traceparent: String?
    ) async -> RenewalOutcome {
        // Twice, for a flight that somebody else began may have been about the tokens before these.
        for _ in 0..<2 {
            if let newer = newerSession(session, ticket: ticket) { return .live(newer) }
            switch await wait(session, ticket: ticket, cause: cause, traceparent: traceparent) {
            case .landed(.live(let same)) where same.hasTokens(of: session): continue
            case .landed(let outcome), .known(let outcome): return outcome
            }
        }
        return .live(session)
    }

    /// Many requests were sent with the same old tokens, and their refusals come in after the renewal.
    private func newerSession(_ session: Session, ticket: SessionTicket) -> Session? {
        guard case .live(let current) = store.find(ticket, now: clock(), slides: false),
            current.isRenewal(of: session)
        else { return nil }
        return current
    }

    private func wait(
        _ session: Session, ticket: SessionTicket, cause: RenewalCause, traceparent: String?
    ) async -> RenewalRegister.Reply {
        let number = nextWaiter.wrappingAdd(1, ordering: .relaxed).newValue
        return await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let now = clock()
                let admission = register.withLock { register -> RenewalRegister.Admission in
                    // Under the lock: whoever is cancelled after this is found among the waiters.
                    guard !Task.isCancelled else { return .answer(RenewalRegister.busy) }
                    return register.admit(session, cause: cause, waiter: waiter, number: number, now: now)
                }
                switch admission {
                case .joined: break
                case .begun(let flight): start(flight, session, ticket: ticket, traceparent: traceparent)
                case .answer(let outcome): waiter.resume(returning: .known(outcome))
                }
            }
        } onCancel: {
            register.withLock { $0.abandon(number, of: session.key) }?
                .resume(returning: .known(RenewalRegister.busy))
        }
    }

    /// Ends a session whose tokens were refused and cannot be renewed.
    private func giveUp(_ session: Session, ticket: SessionTicket, traceparent: String?) async -> RenewalOutcome {
        let start = clock()
        do {
            if try await store.end(ticket, reason: .refreshRejected, now: start) != nil {
                note(.rejected, session.key.id, since: start)
                await revoke(session.tokens, of: session.key.id, traceparent: traceparent)
                return .ended(.refreshRejected)
            }
            // Somebody else has ended it meanwhile: perhaps another request with the same refusal.
            guard case .none(let reason) = try await store.load(ticket, now: clock()) else {
                return .ended(.refreshRejected)
            }
            return .ended(reason)
        } catch {
            return .storeUnavailable(retryAfter: Self.retryAfterStore)
        }
    }

    /// Waits until its task is cancelled, then does what ``shutdown(within:)`` does.
    public func run() async {
        let (forever, continuation) = AsyncStream.makeStream(of: Never.self)
        for await _ in forever {}
        continuation.finish()
        await shutdown()
    }

    /// Lets no renewal begin any more and waits for those that are under way, also where its task is cancelled. Those
    /// that have not spent a refresh token yet end at their next step.
    /// - Parameter bound: How long to wait at most; `nil` is ``RenewalLimits/lease``: what a call takes, and keeping what
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
