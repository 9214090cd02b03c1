import CloakroomCore
import CloakroomSessions
import CloakroomTelemetry

/// Turns what happens to accounts and sessions into metrics and audit lines.
struct AccountTelemetry: AccountObserver {
    let metrics: GatewayMetrics
    let audit: AuditLog

    func accountEvent(_ event: AccountEvent, from origin: RequestOrigin) {
        switch event {
        case .signIn(let outcome, let accountHash, let duration):
            metrics.recordSignIn(outcome, durationNanoseconds: duration.wholeNanoseconds)
            audit.signIn(outcome, user: accountHash, origin: origin)
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
        case .renewal(let result, let session, let duration):
            metrics.recordRenewal(result, durationNanoseconds: duration.wholeNanoseconds)
            switch result {
            case .success, .coalesced: break
            case .rejected: audit.refreshRejected(session, origin: origin)
            case .transient, .leaseTimeout, .misconfigured:
                audit.refreshFailed(result, session, origin: origin, now: .now)
            }
        case .identityMisconfigured(let reason, let call):
            audit.identityMisconfigured(reason, call: call, origin: origin, now: .now)
        }
    }

    /// What a store is to tell.
    var sessionEvents: SessionEvents {
        let (metrics, audit) = (metrics, audit)
        return SessionEvents(
            onCreated: { metrics.recordSessionCreated() }, onEnded: { metrics.recordSessionEnded($0) },
            onUnreadable: { audit.sessionUnreadable($0) })
    }
}

/// Where nobody signs in, there is nothing to answer; the route table sends nothing here.
struct NoOwnEndpoints: OwnEndpoints {
    func answer(_ request: OwnRequest) async -> OwnResponse {
        OwnResponse(Problem(.notFound))
    }
}

/// Where nobody signs in, there are no tokens to renew.
struct NoRenewal: SessionRenewing {
    func renew(
        _ session: Session, ticket: SessionTicket, cause: RenewalCause, traceparent: String?
    ) async -> RenewalOutcome {
        .live(session)
    }

    func mayHelp(_ session: Session) -> Bool { false }
    func renewSoon(_ session: Session, ticket: SessionTicket) {}
}
