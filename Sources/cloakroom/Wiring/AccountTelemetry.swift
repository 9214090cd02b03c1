import CloakroomCore
import CloakroomTelemetry

/// Turns what happens to accounts into metrics and audit lines.
struct AccountTelemetry: AccountObserver {
    let metrics: GatewayMetrics
    let audit: AuditLog

    func accountEvent(_ event: AccountEvent, from origin: RequestOrigin) {
        switch event {
        case .signIn(let outcome, let accountHash, let duration):
            metrics.recordSignIn(outcome, durationNanoseconds: duration.wholeNanoseconds)
            audit.signIn(outcome, user: accountHash, origin: origin)
        case .signOut(let sessionHash):
            metrics.recordSignOut(.user)
            audit.signOut(.user, session: sessionHash, origin: origin)
        case .revokeFailed(let sessionHash):
            audit.revokeFailed(session: sessionHash, origin: origin)
        }
    }
}

/// Where nobody signs in, there is nothing to answer; the route table sends nothing here.
struct NoOwnEndpoints: OwnEndpoints {
    func answer(_ request: OwnRequest) async -> OwnResponse {
        OwnResponse(Problem(.notFound))
    }
}
