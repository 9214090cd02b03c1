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
        count(event)
        audit.record(event, upstreams: upstreams, from: origin, now: .now)
    }

    private func count(_ event: AccountEvent) {
        switch event {
        case .signIn(let outcome, _, let duration):
            metrics.recordSignIn(outcome, durationNanoseconds: duration.wholeNanoseconds)
        case .signOut: metrics.recordSignOut(.user)
        case .signOutOthers: metrics.recordSignOut(.everywhere)
        case .revoked: metrics.recordSignOut(.admin)
        case .evicted, .revokeFailed, .identityMisconfigured: break
        case .deviceProof(let outcome, _, _): metrics.recordDeviceProof(outcome)
        case .deviceCheck(let check, _): metrics.recordDeviceCheck(check)
        case .tokenRefresh(let result, _, let duration):
            metrics.recordRefresh(result, durationNanoseconds: duration.wholeNanoseconds)
        case .loginBegan(let identity):
            metrics.identities[identity].recordLoginBegun()
        case .login(let outcome, let identity, _, _, let duration):
            metrics.identities.recordLogin(
                outcome, identity: identity, durationNanoseconds: duration.wholeNanoseconds)
        case .providerLogout(let sessions, let identity):
            metrics.identities[identity].recordLogout(sessions.isEmpty ? .noSession : .success)
            if !sessions.isEmpty { metrics.recordSignOut(.provider) }
        case .providerLogoutFailed(let identity, let reason):
            metrics.identities[identity].recordLogout(ProviderLogoutOutcome(failedBy: reason))
        case .tokenExchange(let result, _, let upstream, let duration):
            // An index of the configuration that this recorder is of.
            guard upstreams.indices.contains(upstream) else { return }
            metrics.recordExchange(
                result, upstream: upstreams[upstream], durationNanoseconds: duration.wholeNanoseconds)
        }
    }

    var sessionEvents: SessionStoreCallbacks {
        let (metrics, audit) = (metrics, audit)
        var events = SessionStoreCallbacks.none
        events.onCreated = { metrics.recordSessionCreated() }
        events.onEnded = { metrics.recordSessionEnded($0) }
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
