import CloakroomCore
import CloakroomIdentity
import Testing
import Tracing

/// A refresher with an in-memory store, a client that rotates tokens, and a manual clock.
struct RefresherFixture {
    static let limits = RefreshTimeouts(call: .seconds(10), lease: .seconds(15), waiting: .seconds(16))

    let time = ManualTime()
    let store = ScriptedStore(CallRecorder())
    let client: RotatingClient
    let observer = RecordingObserver()
    let refresher: TokenRefresher

    init(supportsRefresh: Bool = true, bounds: RefreshLimits = .usual, tracer: (any Tracer)? = nil) {
        client = RotatingClient(supportsRefresh: supportsRefresh)
        refresher = TokenRefresher(
            store: store, clients: TokenClients(signIn: (.unknown, client)), observer: observer, limits: Self.limits,
            bounds: bounds, clock: { [time] in time.now }, sessionClock: { [time] in time.sessionTime },
            leaseClock: { [time] in time.leaseTime }, tracer: tracer,
            sleep: { [time] in try await time.sleep(for: $0) })
    }

    /// Puts a session into the store whose access token has expired.
    func session(
        _ name: String = "1", refreshToken: Bool = true, life: Duration? = .zero, provenance: SessionProvenance? = nil
    ) async throws -> (ticket: SessionTicket, session: Session) {
        let now = time.now
        let tokens = TokenSet(
            authorization: Secret("Bearer canary-access-\(name)"),
            refreshToken: refreshToken ? Secret("canary-refresh-\(name)") : nil,
            accessTokenExpiresAt: life.map { now + $0 }, obtainedAt: now - .seconds(300))
        let user = UserProfile(
            json: Array(#"{"name":"\#(name)"}"#.utf8), account: AccountName(email: "\(name)@example.com"))
        return try await store.create(
            NewSession(user: user, tokens: tokens, provenance: provenance), now: time.sessionTime)
    }

    func refresh(
        _ session: Session, _ ticket: SessionTicket, cause: RefreshTrigger = .expired
    ) async -> RefreshOutcome {
        await refresher.refresh(session, ticket: ticket, cause: cause, traceparent: "00-a-b-01")
    }

    /// The session as the store holds it.
    func kept(_ ticket: SessionTicket) -> Session? { store.active(ticket, now: time.sessionTime) }

    /// Waits for the refreshes in flight to complete.
    func settle() async { await until { refresher.inFlightCount == 0 } }

    /// The refresh results that the observer received, in order.
    var results: [AccountEvent.RefreshResult] {
        observer.all.compactMap { if case .tokenRefresh(let result, _, _) = $0 { result } else { nil } }
    }
}

extension RefreshOutcome {
    var session: Session? { if case .active(let session) = self { session } else { nil } }
    var endReason: UnauthorizedReason? { if case .ended(let reason) = self { reason } else { nil } }
    /// Status and seconds.
    var unavailable: [Int]? { problem(.unreachable).map { [$0.status, $0.retryAfter ?? 0] } }
    /// The seconds of ``TokenOutcome/misconfigured(retryAfter:)``.
    var misconfigured: Int? { problem(.identityMisconfigured)?.retryAfter }
    var storeRetryAfter: Int? { problem(.storeUnavailable)?.retryAfter }

    private func problem(_ code: ProblemCode) -> Problem? {
        if case .failed(let problem) = self, problem.code == code { problem } else { nil }
    }
}
