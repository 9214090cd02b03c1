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
        switch event {
        case .signIn(let outcome, let accountHash, let duration):
            metrics.recordSignIn(outcome, durationNanoseconds: duration.wholeNanoseconds)
            audit.signIn(outcome, user: accountHash, origin: origin, now: .now)
        case .signOut(let session):
            metrics.recordSignOut(.user)
            audit.signOut(session, origin: origin)
        case .signOutOthers(let sessions, let session, let tokens):
            metrics.recordSignOut(.everywhere)
            audit.signOutOthers(sessions, by: session, tokens: tokens, origin: origin)
        case .revoked(let sessions, let tokens):
            metrics.recordSignOut(.admin)
            audit.revoked(sessions, tokens: tokens, origin: origin)
        case .evicted(let sessions, let tokens):
            audit.evicted(sessions, tokens: tokens, origin: origin)
        case .revokeFailed(let session):
            audit.revokeFailed(session, origin: origin)
        case .tokenRefresh(let result, let session, let duration):
            metrics.recordRefresh(result, durationNanoseconds: duration.wholeNanoseconds)
            switch result {
            case .success, .coalesced: break
            case .rejected: audit.refreshRejected(session, origin: origin)
            case .transient, .leaseTimeout, .misconfigured:
                audit.refreshFailed(result, session, origin: origin, now: .now)
            }
        case .loginBegan(let identity):
            metrics.identities[identity].recordLoginBegun()
        case .login(let outcome, let identity, let reason, let accountHash, let duration):
            metrics.identities.recordLogin(
                outcome, identity: identity, durationNanoseconds: duration.wholeNanoseconds)
            audit.login(
                outcome, identity: identity, reason: reason, user: accountHash, origin: origin, now: .now)
        case .providerLogout(let sessions, let identity):
            metrics.identities[identity].recordLogout(sessions.isEmpty ? .noSession : .success)
            if !sessions.isEmpty { metrics.recordSignOut(.provider) }
            audit.providerLogout(sessions, identity: identity, origin: origin)
        case .providerLogoutFailed(let identity, let reason):
            let outcome: ProviderLogoutOutcome = reason.hasSuffix("_unavailable") ? .unavailable : .rejected
            metrics.identities[identity].recordLogout(outcome)
            audit.providerLogoutFailed(
                identity: identity, outcome: outcome, reason: reason, origin: origin, now: .now)
        case .tokenExchange(let result, let session, let upstream, let duration):
            // An index of the configuration that this recorder is of.
            guard upstreams.indices.contains(upstream) else { return }
            let name = upstreams[upstream]
            metrics.recordExchange(result, upstream: name, durationNanoseconds: duration.wholeNanoseconds)
            if result != .success {
                audit.exchangeFailed(result, session, upstream: name, origin: origin, now: .now)
            }
        case .identityMisconfigured(let reason, let call, let identity):
            audit.identityMisconfigured(reason, call: call, identity: identity, origin: origin, now: .now)
        }
    }

    /// The callbacks for a session store.
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
