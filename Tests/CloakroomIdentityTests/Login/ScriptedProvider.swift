import Synchronization

@testable import CloakroomCore
@testable import CloakroomIdentity

/// A provider with scripted responses, which also records what it is asked.
final class ScriptedProvider: LoginProvider {
    /// A code that was sent to the provider.
    struct Redemption: Sendable, Equatable {
        var code: Secret
        var login: PendingLogin
        var redirectURI: String
        var needsAuthenticationTime: Bool
        var now: WallTime
    }

    private struct State {
        var secrets: [LoginSecrets] = []
        var stepUps: [AuthorizationRequest.StepUp?] = []
        var passed: [[IdentityConfiguration.Parameter]] = []
        var redemptions: [Redemption] = []
        var tokens: [[UInt8]] = []
        var loginError: TokenClientError?
        var isReady = true
        var redeemError: TokenClientError?
        var stated: SessionProvenance
        var endsBy: WallTime?
        var lifetime: Duration?
        var hasRefreshToken = true
        var onRedeem: (@Sendable () async -> Void)?
        var logout: Result<LogoutToken, TokenClientError> = .failure(TokenClientError(.unreachable, in: .keys))
        var announcesIssuer = false
        var endSessionURL: String?
    }

    let configuration: IdentityConfiguration
    private let state: Mutex<State>

    init(
        _ name: String = "company", issuer: String = LoginFixture.issuer,
        passParameters: [IdentityConfiguration.PassedParameter] = []
    ) {
        var configuration = IdentityConfiguration(
            name: name, issuer: issuer,
            client: IdentityClientConfiguration(
                id: "cloakroom", authentication: .basic(Secret("canary-client-secret"))))
        configuration.passParameters = passParameters
        self.configuration = configuration
        state = Mutex(
            State(
                stated: SessionProvenance(
                    identity: name, issuer: issuer, subject: "jo", providerSession: "sid-1",
                    nonceHash: [], claims: Array(#"{"sub":"jo","groups":["staff"]}"#.utf8),
                    idToken: Secret("canary-id-token"))))
    }

    // MARK: - What it is asked

    /// The secrets of the logins that began, in their order.
    var secrets: [LoginSecrets] { state.withLock { $0.secrets } }
    var stepUps: [AuthorizationRequest.StepUp?] { state.withLock { $0.stepUps } }
    /// The parameters of clients in the logins that began.
    var passed: [[IdentityConfiguration.Parameter]] { state.withLock { $0.passed } }
    var redemptions: [Redemption] { state.withLock { $0.redemptions } }
    /// The logout tokens that it verified.
    var tokens: [[UInt8]] { state.withLock { $0.tokens } }

    // MARK: - What it responds

    func failLogin(_ error: TokenClientError?) { state.withLock { $0.loginError = error } }
    func becomeReady(_ isReady: Bool) { state.withLock { $0.isReady = isReady } }
    func failRedeem(_ error: TokenClientError?) { state.withLock { $0.redeemError = error } }
    func onRedeem(_ body: (@Sendable () async -> Void)?) { state.withLock { $0.onRedeem = body } }
    func end(by time: WallTime?) { state.withLock { $0.endsBy = time } }
    func issue(for lifetime: Duration, hasRefreshToken: Bool) {
        state.withLock { ($0.lifetime, $0.hasRefreshToken) = (lifetime, hasRefreshToken) }
    }
    func announceIssuer() { state.withLock { $0.announcesIssuer = true } }
    func endSession(at url: String?) { state.withLock { $0.endSessionURL = url } }
    func state(_ change: (inout SessionProvenance) -> Void) { state.withLock { change(&$0.stated) } }
    func logout(_ result: Result<LogoutToken, TokenClientError>) { state.withLock { $0.logout = result } }

    /// Accepts every logout token as one about the given sessions.
    func logout(_ target: LogoutTarget, id: String = "jti-1", at time: WallTime = LoginFixture.now) {
        // `iat` has whole seconds.
        let issuedAt = WallTime(seconds: time.milliseconds / 1_000)
        logout(
            .success(
                LogoutToken(
                    session: target.session, subject: target.subject, issuer: configuration.issuer, id: id,
                    issuedAt: issuedAt,
                    replayableUntil: issuedAt + .seconds(121))))
    }

    // MARK: - LoginProvider

    func prepare(from address: String) async throws(TokenClientError) {
        if !state.withLock({ $0.isReady }) { throw TokenClientError(.unreachable, in: .discovery) }
    }

    var announcesIssuer: Bool { state.withLock { $0.announcesIssuer } }

    func authorizationURL(
        _ secrets: LoginSecrets, redirectURI: String, stepUp: AuthorizationRequest.StepUp?,
        passed: [IdentityConfiguration.Parameter], address: String, traceparent: String?
    ) async throws(TokenClientError) -> String {
        let error = state.withLock { state in
            state.secrets.append(secrets)
            state.stepUps.append(stepUp)
            state.passed.append(passed)
            return state.loginError
        }
        if let error { throw error }
        return "\(configuration.issuer)/authorize?state=\(Base64URL.encode(secrets.state))"
    }

    func redeem(
        code: Secret, login: PendingLogin, redirectURI: String, needsAuthenticationTime: Bool, traceparent: String?,
        now: WallTime
    ) async throws(TokenClientError) -> ProviderSignIn {
        let (error, stated, endsBy, onRedeem, number) = state.withLock { state in
            state.redemptions.append(
                Redemption(
                    code: code, login: login, redirectURI: redirectURI,
                    needsAuthenticationTime: needsAuthenticationTime, now: now))
            return (state.redeemError, state.stated, state.endsBy, state.onRedeem, state.redemptions.count)
        }
        await onRedeem?()
        if let error { throw error }
        let (lifetime, hasRefreshToken) = state.withLock { ($0.lifetime, $0.hasRefreshToken) }
        return ProviderSignIn(
            tokens: TokenSet(
                authorization: Secret("Bearer canary-access-\(number)"),
                refreshToken: hasRefreshToken ? Secret("canary-refresh-\(number)") : nil,
                accessTokenExpiresAt: lifetime.map { now + $0 }, obtainedAt: now),
            provenance: stated, user: UserProfile(json: Array("{}".utf8), account: stated.account), endsBy: endsBy)
    }

    func verifyLogoutToken(
        _ token: [UInt8], from address: String, now: WallTime
    ) async throws(TokenClientError) -> LogoutToken {
        try state.withLock { state in
            state.tokens.append(token)
            return state.logout
        }.get()
    }

    func endSessionURL(_ provenance: SessionProvenance, publicURL: String) -> String? {
        state.withLock { state in
            guard let token = provenance.idToken else { return state.endSessionURL }
            return state.endSessionURL.map { $0 + "&id_token_hint=" + String(decoding: token.bytes, as: UTF8.self) }
        }
    }
}

/// What the logout token of a scripted provider is about.
enum LogoutTarget: Sendable {
    case session(id: String, subject: String?)
    case subject(String)

    var session: String? { if case .session(let id, _) = self { id } else { nil } }

    var subject: String? {
        switch self {
        case .session(_, let subject): subject
        case .subject(let subject): subject
        }
    }
}
