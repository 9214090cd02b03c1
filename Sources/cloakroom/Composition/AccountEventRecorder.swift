import CloakroomCore
import CloakroomSessions
import CloakroomTelemetry

/// Records account and session events as metrics and audit log lines.
struct AccountEventRecorder: AccountObserver {
    let metrics: GatewayMetrics
    let audit: AuditLog
    /// Records identity calls.
    let calls: IdentityCallRecorder
    /// The names of the upstreams of a configuration; empty for events without an upstream.
    var upstreams: [String]

    init(metrics: GatewayMetrics, audit: AuditLog, upstreams: [String] = []) {
        self.metrics = metrics
        self.audit = audit
        calls = IdentityCallRecorder(metrics: metrics, audit: audit)
        self.upstreams = upstreams
    }

    func accountEvent(_ event: AccountEvent, from origin: AuditContext) {
        metrics.record(event, upstreams: upstreams, app: origin.app)
        audit.record(event, upstreams: upstreams, from: origin, now: .now)
    }

    var sessionEvents: SessionStoreCallbacks {
        let (metrics, audit) = (metrics, audit)
        var events = SessionStoreCallbacks.none
        events.onCreated = { metrics.sessionsCreated.increment() }
        events.onEnded = { metrics.sessionsEnded[$0]?.increment() }
        events.onUnreadable = { audit.sessionUnreadable($0) }
        return events
    }
}

/// The account endpoints of a configuration without sign-in. The route table sends no requests here.
struct DisabledAccountEndpoints: AccountEndpointHandler {
    func respond(_ request: AccountRequest) async -> AccountResponse {
        AccountResponse(Problem(.notFound))
    }
}

/// The token refresher of a configuration without sign-in. Returns each session unchanged.
struct DisabledTokenRefresher: TokenRefreshing {
    func refresh(
        _ session: Session, ticket: SessionTicket, cause: RefreshTrigger, traceparent: String?
    ) async -> RefreshOutcome {
        .active(session)
    }

    func shouldRefreshAfterRejection(_ session: Session) -> Bool { false }
    func refreshInBackground(_ session: Session, ticket: SessionTicket) {}
}
