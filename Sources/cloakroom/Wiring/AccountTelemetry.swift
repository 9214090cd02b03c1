import CloakroomCore
import CloakroomTelemetry

/// Turns what happens to accounts into metrics and audit lines.
struct AccountTelemetry: AccountObserver {
    let metrics: GatewayMetrics
    let audit: AuditLog

    func accountEvent(_ event: AccountEvent) {
        switch event {
        case .signIn(let outcome, let accountHash, let duration):
            guard let outcome = SignInOutcome(rawValue: outcome.rawValue) else { return }
            metrics.recordSignIn(outcome, durationNanoseconds: duration.wholeNanoseconds)
            audit.signIn(outcome, user: accountHash, peer: "", requestID: nil)
        case .signOut(let sessionHash):
            metrics.recordSignOut(.user)
            audit.signOut(.user, user: sessionHash, peer: "", requestID: nil)
        case .revokeFailed: break
        }
    }
}

/// Where nobody signs in, there is nothing to answer; the route table sends nothing here.
struct NoOwnEndpoints: OwnEndpoints {
    func answer(_ request: OwnRequest) async -> OwnResponse {
        OwnResponse(Problem(.notFound))
    }
}
