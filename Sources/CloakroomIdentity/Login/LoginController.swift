import CloakroomCore

/// Begins a login at a provider: `GET` of `login` below the accounts prefix.
///
/// Parameters: `returnTo`, where the browser continues; `identity`, the name of a provider; `for`, the name of a route
/// whose authentication requirement the login has to meet; `persistent`, see ``CookieConfiguration/Persistence``.
/// Those of ``IdentityConfiguration/passParameters`` are sent to the provider. `app` is the token of an app's login, see
/// ``AppController``. Others are ignored.
///
/// Only a navigation begins a login. Everything about the login is in its cookie: the gateway keeps nothing, and a
/// login that is never completed costs nothing.
///
/// A link on another site, which can have any parameters, neither replaces a session nor makes one last longer than the
/// user requested: it continues with the session that the browser has, and `persistent` and `login_hint` have no effect.
/// It may begin a step-up of a provider's session, which replaces the session only by one of the same user.
///
/// Browsers send no `Strict` cookie with such a link, so the gateway cannot know whether there is a session. It sends a
/// page that requests the same once more: that request begins at the gateway and has the cookie. Its parameter `foreign`
/// marks it as the other site's. The parameter only takes rights away, so any site may add it.
struct LoginController: Sendable {
    /// The maximum length of a query in bytes.
    static let maxQuery = 4_096

    let account: AccountController
    let logins: ProviderLogins

    /// What the query requests.
    private struct Parameters {
        var returnTo: String?
        var identity: String?
        var isPersistent = false
        /// Whether no other site began the request.
        var isOwn: Bool
        /// The name of a route that requires a certain authentication, and the requirement.
        var stepUp: (route: String, requirement: SessionRequirement)?
        /// See ``fields(_:isOwn:)``.
        var fields: [JSONMemberName: String]
    }

    func respond(_ request: AccountRequest) async -> AccountResponse {
        guard request.fetchMetadata.isNavigation else {
            return rejected(.crossSite, "Open the sign-in in a browser tab.", request)
        }
        guard let parameters = parameters(of: request) else {
            return rejected(.badRequest, "The parameters of the sign-in are invalid.", request)
        }
        if let token = parameters.fields["app"] { return await begin(token: token, isOwn: parameters.isOwn, request) }
        if request.ticket == nil, !request.fetchMetadata.isOwn, account.session.cookie.sameSite == .strict {
            // Of a browser that comes back without the cookie, the user has to continue: no loop.
            return LoginPage.continuation(
                at: ownAddress(parameters), title: "Sign in", isAutomatic: parameters.fields["foreign"] == nil,
                theme: logins.theme)
        }
        return await account.spans.withSpan("login") { span in
            let attempt = LoginAttempt(account: account, logins: logins, request: request, span: span)
            // The new session replaces this one. It is looked up now: a `Strict` cookie is not sent with the callback.
            let (replaced, isAdmitted): (Session?, Bool)
            do throws(SessionStoreError) {
                (replaced, isAdmitted) = try await account.replaceableSession(of: request)
            } catch {
                return attempt.failed(LoginFailure(error), at: logins.providers.first)
            }
            let own = parameters.stepUp == nil ? nil : replaced
            guard let provider = logins.provider(parameters.identity, among: logins.providers, of: own),
                let passed = logins.passed(parameters.fields, to: provider)
            else {
                return rejected(.badRequest, "The parameters of the sign-in are invalid.", request)
            }
            // A login does not authenticate the user of a password again: it would replace the session by another one.
            let isStepUp = parameters.stepUp != nil && replaced?.provenance != nil
            if isAdmitted, !isStepUp, !parameters.isOwn {
                span?.setOutcome(outcome: "signed_in", isError: false)
                return .redirect(to: logins.returnTarget(parameters.returnTo), cookies: [])
            }
            let login = PendingLogin(
                identity: provider.configuration.name,
                issuerHash: PendingLogin.hash(ofIssuer: provider.configuration.issuer),
                returnTarget: logins.returnTarget(parameters.returnTo), startedAt: request.wallTime,
                route: parameters.stepUp?.route, replaces: replaced?.key, subjectHash: own?.provenance?.subjectHash,
                isPersistent: parameters.isPersistent, isSilent: passed.contains(.init("prompt", "none")))
            let required = parameters.stepUp?.requirement.stepUp(for: replaced?.claims?.values)
            return await begin(
                login, at: provider, stepUp: required.map { .init(acr: $0.acr, maxAge: $0.maxAge) }, passing: passed,
                attempt)
        }
    }

    /// Begins the login of an app. The session of the browser is neither read nor replaced, and the token alone has all
    /// parameters. Any client can get a token and link to it, so those of ``fields(_:isOwn:)`` need an app that opened it.
    private func begin(token: String, isOwn: Bool, _ request: AccountRequest) async -> AccountResponse {
        await account.spans.withSpan("login") { span in
            let attempt = LoginAttempt(account: account, logins: logins, request: request, span: span)
            guard var login = logins.cookies.open(token, as: .token, now: request.wallTime),
                let provider = logins.parties(of: login)?.provider,
                let fields = FormURLEncodedBody.read(Array(login.returnTarget.utf8)),
                let passed = logins.passed(Self.fields(fields, isOwn: isOwn), to: provider)
            else {
                return attempt.failed(
                    LoginFailure(.noPendingLogin, detail: "app_token_invalid"), at: logins.providers.first)
            }
            login.returnTarget = ""
            let maxAge = fields["max_age"].flatMap { Int64($0) }.map { Duration.seconds($0) }
            let acr = fields["acr_values"]?.split(separator: " ").map(String.init) ?? []
            return await begin(login, at: provider, stepUp: .init(acr: acr, maxAge: maxAge), passing: passed, attempt)
        }
    }

    /// - Returns: `nil` for a query that is too long or malformed, that has a parameter twice, or that names no route.
    private func parameters(of request: AccountRequest) -> Parameters? {
        guard request.query.count <= Self.maxQuery, let fields = FormURLEncodedBody.read(request.query) else {
            return nil
        }
        let isOwn = request.fetchMetadata.isOwn && fields["foreign"] == nil
        var parameters = Parameters(
            returnTo: fields["returnTo"], identity: fields["identity"],
            isPersistent: fields["persistent"].map { TokenClaims.isSame($0, "1") } ?? false && isOwn, isOwn: isOwn,
            fields: Self.fields(fields, isOwn: isOwn))
        if let route = fields["for"] {
            guard let requirement = logins.requirement(ofRoute: route) else { return nil }
            if requirement.requiresStepUp { parameters.stepUp = (route, requirement) }
        }
        return parameters
    }

    /// The path and query of the same request, as one that begins at the gateway.
    private func ownAddress(_ parameters: Parameters) -> String {
        var fields: [(String, String?)] = [
            ("returnTo", logins.returnTarget(parameters.returnTo)), ("identity", parameters.identity),
            ("for", parameters.stepUp?.route), ("foreign", "1"),
        ]
        var names: Set<String> = []
        for parameter in logins.providers.flatMap({ $0.configuration.passParameters })
        where names.insert(parameter.name).inserted {
            fields.append((parameter.name, parameters.fields[JSONMemberName(parameter.name)]))
        }
        let query = FormEncoding.encode(fields.compactMap { name, value in value.map { (name: name, value: $0) } })
        return "\(account.accounts.prefix)/login?\(query)"
    }

    /// In a navigation of another site without `login_hint`, which chooses the account, and `prompt=none`, with which
    /// the user sees nothing.
    private static func fields(_ fields: [JSONMemberName: String], isOwn: Bool) -> [JSONMemberName: String] {
        fields.filter {
            isOwn
                || $0.key != JSONMemberName(IdentityConfiguration.PassedParameter.loginHint)
                    && ($0.key != "prompt" || !TokenClaims.isSame($0.value, "none"))
        }
    }

    /// Sends the browser to the provider.
    /// - Parameter login: Without secrets.
    private func begin(
        _ login: PendingLogin, at provider: any LoginProvider, stepUp: AuthorizationRequest.StepUp?,
        passing passed: [IdentityConfiguration.Parameter], _ attempt: LoginAttempt
    ) async -> AccountResponse {
        let request = attempt.request
        do throws(LoginFailure) {
            try await checkThrottle(request)
            var generator = SystemRandomNumberGenerator()
            let secrets = LoginSecrets(using: &generator)
            var login = login
            (login.stateHash, login.nonce, login.verifier) = (secrets.stateHash, secrets.nonce, secrets.verifier)
            guard let cookie = logins.cookies.setCookieValue(login) else {
                throw LoginFailure(.misconfigured, detail: "login_too_long")
            }
            let url: String
            do throws(TokenClientError) {
                url = try await provider.authorizationURL(
                    secrets, redirectURI: logins.redirectURI(of: provider), stepUp: stepUp, passed: passed,
                    address: request.origin.peer, traceparent: request.traceparent)
            } catch {
                throw account.failure(of: error, at: provider, request)
            }
            attempt.span?.setOutcome(outcome: "success", isError: false)
            account.observer.accountEvent(.loginBegan(identity: provider.configuration.name), from: request.origin)
            let cleared = logins.cookies.namesToClear(request.loginCookies, now: request.wallTime)
            return .redirect(to: url, cookies: cleared.map(logins.cookies.clearCookieValue) + [cookie])
        } catch {
            return attempt.failed(error, at: provider, of: login)
        }
    }

    /// A user is not sent to a provider if the callback would be rejected because of earlier failures.
    private func checkThrottle(_ request: AccountRequest) async throws(LoginFailure) {
        let wait = try await LoginFailure.store(
            await account.throttle?.wait(from: request.origin.peer, now: request.now))
        if let wait { throw LoginFailure(.throttled, retryAfter: SignInThrottle.retryAfter(wait)) }
    }

    private func rejected(_ code: ProblemCode, _ detail: String, _ request: AccountRequest) -> AccountResponse {
        logins.response(account.worded(Problem(code, detail: detail)), to: request)
    }
}
