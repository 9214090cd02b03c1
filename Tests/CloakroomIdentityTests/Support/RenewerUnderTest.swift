import CloakroomCore
import CloakroomIdentity
import Testing
import Tracing

/// A renewer over a store in memory, a client that rotates tokens, and a clock that stands still.
struct RenewerUnderTest {
    static let limits = RenewalLimits(call: .seconds(10), lease: .seconds(15), waiting: .seconds(16))

    let time = ManualTime()
    let store = ScriptedStore(Journal())
    let client = RotatingClient()
    let observer = RecordingObserver()
    let renewer: SessionRenewer

    init(canRenew: Bool = true, bounds: RenewalBounds = RenewalBounds(), tracer: (any Tracer)? = nil) {
        renewer = SessionRenewer(
            store: store, client: client, observer: observer, canRenew: canRenew, limits: Self.limits,
            bounds: bounds, clock: { [time] in time.now }, tracer: tracer,
            sleep: { [time] in try await time.sleep(for: $0) })
    }

    /// Puts a session into the store whose access token has ended.
    func session(
        _ name: String = "1", refreshToken: Bool = true, life: Duration? = .zero
    ) async throws -> (ticket: SessionTicket, session: Session) {
        let now = time.now
        let tokens = SessionTokens(
            authorization: Secret("Bearer canary-access-\(name)"),
            refreshToken: refreshToken ? Secret("canary-refresh-\(name)") : nil,
            accessExpiresAt: life.map { now + $0 }, obtainedAt: now - .seconds(300))
        let user = UserProfile(
            json: Array(#"{"name":"\#(name)"}"#.utf8), account: AccountName(email: "\(name)@example.com"))
        return try await store.create(NewSession(user: user, tokens: tokens), now: now)
    }

    func renew(
        _ session: Session, _ ticket: SessionTicket, cause: RenewalCause = .expiry
    ) async -> RenewalOutcome {
        await renewer.renew(session, ticket: ticket, cause: cause, traceparent: "00-a-b-01")
    }

    /// The session as the store has it.
    func kept(_ ticket: SessionTicket) -> Session? {
        if case .live(let session) = store.find(ticket, now: time.now, slides: false) { session } else { nil }
    }

    /// Lets the flights that are under way come to their end.
    func settle() async { await until { renewer.flightCount == 0 } }

    /// The results of renewals that the observer was told, in order.
    var results: [AccountEvent.RenewalResult] {
        observer.all.compactMap { if case .renewal(let result, _, _) = $0 { result } else { nil } }
    }
}

extension RenewalOutcome {
    var session: Session? { if case .live(let session) = self { session } else { nil } }
    var endReason: UnauthorizedReason? { if case .ended(let reason) = self { reason } else { nil } }
    /// Status and seconds.
    var unavailable: [Int]? {
        if case .unavailable(let status, let retryAfter) = self { [status, retryAfter] } else { nil }
    }
    var storeRetryAfter: Int? { if case .storeUnavailable(let retryAfter) = self { retryAfter } else { nil } }
}
