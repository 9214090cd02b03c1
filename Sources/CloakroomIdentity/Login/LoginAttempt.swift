import CloakroomCore
import Tracing

/// The start of a login, or its callback: when the request came, and its span if it is traced.
struct LoginAttempt: Sendable {
    let account: AccountController
    let logins: ProviderLogins
    let request: AccountRequest
    let span: (any Span)?
    private let start = ContinuousClock.now

    /// The time since the request was received.
    var elapsed: Duration { ContinuousClock.now - start }

    /// Records the session of a successful login.
    func succeeded(_ session: Session, at provider: any LoginProvider) {
        note(.success, nil, account.hashes.hash(session.user.account), session.app, provider)
    }

    /// Records a failure, and responds to it.
    /// - Parameters:
    ///   - provider: `nil` if there is none.
    ///   - login: `nil` if it is not known.
    ///   - cookies: Values for `Set-Cookie`.
    func failed(
        _ failure: LoginFailure, at provider: (any LoginProvider)?, of login: PendingLogin? = nil,
        cookies: [String] = []
    ) -> AccountResponse {
        if let provider { note(failure.effects.outcome, failure.logged, nil, login?.app?.name, provider) }
        var problem = Problem(failure.effects.code, retryAfter: failure.retryAfter)
        if failure.isUnknownLogin {
            // No redirect of the login to this address: behind a proxy that changes `Host` it would lead back to itself.
            problem.detail += " If it never works, it begins at another address: open \(logins.publicURL) instead."
        }
        var response = logins.response(account.worded(problem), to: request, cookies: cookies)
        let step = failure.call?.rawValue ?? (request.endpoint == .login ? "start" : "callback")
        response.loginFailure = "\(step): \(failure.logged)"
        return response
    }

    private func note(
        _ outcome: AccountEvent.LoginOutcome, _ reason: String?, _ accountHash: UInt64?, _ app: String?,
        _ provider: any LoginProvider
    ) {
        var origin = request.origin
        origin.app = app
        span?.setOutcome(
            outcome: outcome.rawValue,
            isError: [.failed, .unavailable, .misconfigured, .storeError].contains(outcome))
        account.observer.accountEvent(
            .login(
                outcome, identity: provider.configuration.name, reason: reason, accountHash: accountHash,
                duration: elapsed),
            from: origin)
    }
}

extension AccountController {
    /// The failure of a call to a provider. Reports a configuration that does not match it.
    func failure(
        of error: TokenClientError, at provider: any LoginProvider, _ request: AccountRequest
    ) -> LoginFailure {
        observer.note(error, of: provider.configuration.name, from: request.origin)
        return LoginFailure(error)
    }
}
