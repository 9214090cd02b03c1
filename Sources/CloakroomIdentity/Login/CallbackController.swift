import CloakroomCore

/// Completes a login: `GET` of `callback` below the accounts prefix, where a provider sends the browser back.
///
/// Any page can send a browser here with any query. Only a browser with the sealed cookie of the login gets further,
/// once for each login, and only then is the code sent to the provider. The cookie is removed with every result. It
/// remains only if the store or the throttle stopped the login before its code was spent: then a reload can complete
/// it, unless the store has applied a call that the gateway had given up. That fails with `login_expired`.
struct CallbackController: Sendable {
    /// The minimum lifetime of a new session by `refresh_expires_in`, and without a refresh token by its access token.
    private static let minLifetime = Duration.seconds(10)

    let account: AccountController
    let logins: ProviderLogins

    /// A callback that belongs to a login of the browser.
    private struct Accepted {
        let provider: any LoginProvider
        let login: PendingLogin
        let code: Secret
        /// How the user has to have authenticated.
        let requirement: SessionRequirement
    }

    func respond(_ request: AccountRequest) async -> AccountResponse {
        guard let provider = logins.provider(ofPath: request.name) else {
            return logins.response(account.worded(Problem(.notFound)), to: request)
        }
        return await account.spans.withSpan("login_callback") { span in
            let attempt = LoginAttempt(account: account, logins: logins, request: request, span: span)
            guard let query = try? CallbackQuery(request.query) else {
                return attempt.failed(LoginFailure(.malformedCallback), at: provider)
            }
            let cleared = clearedCookies(of: query, request)
            var isSpent = false
            var pending: PendingLogin?
            do throws(LoginFailure) {
                let login = try login(of: query, request)
                pending = login
                let (accepted, counted) = try await admit(login, at: provider, attempt) { () throws(LoginFailure) in
                    try CallbackCheck.code(
                        of: query, login: login,
                        expecting: CallbackCheck.Expectation(
                            identity: provider.configuration.name, issuer: provider.configuration.issuer,
                            announcesIssuer: provider.announcesIssuer))
                }
                if var coded = login.app == nil ? nil : login {
                    // Counted among all attempts here, and not once more when the app spends the code of the provider.
                    await counted?.succeeded(now: request.now + attempt.elapsed)
                    coded.returnTarget = String(decoding: accepted.code.bytes, as: UTF8.self)
                    guard let code = logins.cookies.seal(coded, as: .code, now: request.wallTime),
                        let response = continuing(in: login, with: ("code", code), cleared)
                    else { throw LoginFailure(.noPendingLogin, detail: "app_removed") }
                    return response
                }
                try await markUsed(login, request)
                isSpent = true
                let fields = try await complete(accepted, attempt, counted).fields
                return continuing(at: login.returnTarget, cleared, fields)
            } catch {
                let removed = isSpent || !error.isTemporary ? cleared : []
                let page = attempt.failed(error, at: provider, of: pending, cookies: removed)
                guard let pending else { return page }
                let result = ("error", error.effects.code.rawValue)
                if let response = continuing(in: pending, with: result, removed) { return response }
                guard pending.isSilent, error.requiresPage else { return page }
                return continuing(at: pending.returnTarget, title: "Continue", cleared)
            }
        }
    }

    /// Completes the login of an app: `POST` of `app/code` below the accounts prefix, with the code of the redirect and
    /// the cookie of the app's HTTP client. The response is that of a sign-in.
    func exchange(_ request: AccountRequest) async -> AccountResponse {
        guard let text = AppController.members(of: request)?["code"]?.string else {
            return AppController.invalid("code")
        }
        return await account.spans.withSpan("login_callback") { span in
            let attempt = LoginAttempt(account: account, logins: logins, request: request, span: span)
            let login = logins.cookies.open(text, as: .code, now: request.wallTime)
            let provider = login.flatMap { logins.parties(of: $0) }?.provider
            var cookies: [String] = []
            do throws(LoginFailure) {
                guard let login, let provider else { throw LoginFailure(.noPendingLogin, detail: "app_code_invalid") }
                let (accepted, counted) = try await admit(login, at: provider, attempt) {
                    () throws(LoginFailure) in
                    guard logins.cookies.hasVerifier(of: login, among: request.loginCookies, now: request.wallTime)
                    else { throw LoginFailure(.otherClient) }
                    return Secret(login.returnTarget)
                }
                try await markUsed(login, request)
                cookies = [logins.cookies.clearCookieValue(name: logins.cookies.verifierName)]
                let (session, fields) = try await complete(accepted, attempt, counted)
                return AccountResponse(
                    status: 200, fields: fields + cookies.map { AccountResponse.Field("Set-Cookie", $0) },
                    content: account.document(session))
            } catch {
                return attempt.failed(error, at: provider ?? logins.providers.first, of: login, cookies: cookies)
            }
        }
    }

    /// The value that removes the cookie of the login, if the browser sent one with its name, valid or not.
    private func clearedCookies(of query: CallbackQuery, _ request: AccountRequest) -> [String] {
        let name = logins.cookies.name(ofStateHash: LoginSecrets.hash(ofState: query.state))
        return request.loginCookies.contains { $0.name == name } ? [logins.cookies.clearCookieValue(name: name)] : []
    }

    /// The login that the browser began.
    private func login(of query: CallbackQuery, _ request: AccountRequest) throws(LoginFailure) -> PendingLogin {
        let login = logins.cookies.login(forState: query.state, among: request.loginCookies, now: request.wallTime)
        guard let login else { throw LoginFailure(.noPendingLogin) }
        return login
    }

    /// Counts the request as a failure of its address until it succeeds, together with sign-ins with credentials, and
    /// checks all that can be checked without a call to the provider. Errors of the provider do not count as failures, but
    /// among all attempts of the address.
    /// - Parameter code: Checks the code, and returns it.
    private func admit(
        _ login: PendingLogin, at provider: any LoginProvider, _ attempt: LoginAttempt,
        code: () throws(LoginFailure) -> Secret
    ) async throws(LoginFailure) -> (Accepted, SignInAttempt?) {
        let request = attempt.request
        let admission = try await LoginFailure.store(
            await account.throttle?.admit(from: request.origin.peer, now: request.now))
        var counted: SignInAttempt?
        switch admission {
        case .throttled(let wait): throw LoginFailure(.throttled, retryAfter: SignInThrottle.retryAfter(wait))
        case .admitted(let attempt): counted = attempt
        case nil: break
        }
        do throws(LoginFailure) {
            // After a start: only the metadata specify whether `iss` is required.
            do throws(TokenClientError) { try await provider.prepare(from: request.origin.peer) } catch {
                throw LoginFailure(.notReady, retryAfter: AccountController.retryAfter)
            }
            let code = try code()
            var requirement = SessionRequirement.none
            if let route = login.route {
                // A reload may have removed the route.
                guard let current = logins.requirement(ofRoute: route) else { throw LoginFailure(.stepUp) }
                requirement = current
                requirement.claims = []
            }
            return (Accepted(provider: provider, login: login, code: code, requirement: requirement), counted)
        } catch {
            let now = request.now + attempt.elapsed
            // An error that a provider states is no guess of its user. But any client can repeat one, so it is limited among
            // all attempts of the address, like a success.
            if error.isTemporary {
                await counted?.release(now: now)
            } else if !error.countsAsAttempt {
                await counted?.succeeded(now: now)
            }
            throw error
        }
    }

    /// Of several callbacks with one state, in any replica, one gets further. The store decides before the code is
    /// spent: without it, the code remains valid.
    private func markUsed(_ login: PendingLogin, _ request: AccountRequest) async throws(LoginFailure) {
        let keys = account.hashes.marks(.usedLogin, of: [login.stateHash])
        // The clocks of replicas differ, and a login is not from the future by more than a minute. The code of an app can
        // be valid for longer than its login.
        let lifetime = logins.login.timeout + .seconds(60) + (login.app == nil ? .zero : AppLoginValue.codeLifetime * 2)
        let isFirst = try await LoginFailure.store(
            await account.store.setMark(keys, lifetime: lifetime, now: request.now))
        guard isFirst else { throw LoginFailure(.used) }
    }

    private func redeem(
        _ accepted: Accepted, _ attempt: LoginAttempt, _ counted: SignInAttempt?
    ) async throws(LoginFailure) -> ProviderSignIn {
        let request = attempt.request
        do throws(TokenClientError) {
            let signIn = try await accepted.provider.redeem(
                code: accepted.code, login: accepted.login, redirectURI: logins.redirectURI(of: accepted.provider),
                needsAuthenticationTime: accepted.requirement.maxAge != nil, traceparent: request.traceparent,
                now: request.wallTime)
            let now = request.now + attempt.elapsed
            if accepted.login.app == nil {
                await counted?.succeeded(now: now)
            } else {
                await counted?.release(now: now)
            }
            return signIn
        } catch {
            // Only a rejected code counts: users do not wait because of the provider or the configuration.
            if error.kind.effects.word != nil { await counted?.release(now: request.now + attempt.elapsed) }
            throw account.failure(of: error, at: accepted.provider, request)
        }
    }

    /// Checks what the provider stated about the user. It may ignore what the authorization request contained:
    /// `acr_values` is voluntary (OpenID Connect Core §3.1.2.1).
    private func check(
        _ signIn: ProviderSignIn, for accepted: Accepted, at now: WallTime
    ) throws(LoginFailure) {
        let stated = signIn.provenance
        if let expected = accepted.login.subjectHash,
            expected != stated.subjectHash
        {
            throw LoginFailure(.otherUser)
        }
        let verdict = accepted.requirement.judge(
            claims: SessionClaims(stated).values, acr: stated.acr, authenticatedAt: stated.authenticatedAt, now: now,
            skew: accepted.provider.configuration.clockSkew)
        // The route rejects a session without the claims of all alternatives: no login changes them.
        guard verdict != .stepUp else { throw LoginFailure(.stepUp) }
        // The browser would come back at once for a new login, and so on without an end.
        if let end = signIn.endsBy, end - now < Self.minLifetime {
            throw LoginFailure(.invalidResponse, detail: "session_too_short")
        }
        // Without a refresh token the session ends with the access token, the next one too: only the operator can help.
        if signIn.tokens.refreshToken == nil, let end = signIn.tokens.accessTokenExpiresAt,
            end - now < Self.minLifetime
        {
            throw LoginFailure(.misconfigured, detail: "token_too_short")
        }
        // An upstream that does not receive a claim could treat the user as another one.
        if let claim = ClaimHeaders.unrepresentableClaim(of: stated, upstreams: logins.upstreams) {
            throw LoginFailure(.invalidResponse, detail: "unsupported_claim:\(claim)")
        }
    }

    /// Creates the session, then checks whether the provider has ended its own session meanwhile: a logout token that
    /// arrives earlier leaves a mark, and one that arrives later finds the session.
    private func issue(
        _ signIn: ProviderSignIn, for accepted: Accepted, _ attempt: LoginAttempt
    ) async throws(LoginFailure) -> (SessionTicket, Session) {
        let request = attempt.request
        let new = account.newSession(
            user: signIn.user, tokens: signIn.tokens, source: accepted.provider.configuration.source,
            provenance: signIn.provenance, endsBy: signIn.endsBy, app: logins.parties(of: accepted.login)?.app,
            for: request)
        let issued = try await LoginFailure.store(
            await account.issueSession(new, replacing: accepted.login.replaces, for: request))
        let marks = LogoutMarks(hashes: account.hashes).keys(ending: signIn.provenance)
        do throws(LoginFailure) {
            let logout = try await LoginFailure.store(await account.store.latestMark(marks, now: request.now))
            if let logout, accepted.login.startedAt <= logout { throw LoginFailure(.loggedOut) }
        } catch {
            await account.withdraw(issued.ticket, new, for: request)
            throw error
        }
        for old in issued.replaced {
            let ended = EndedSession(id: old.id, opened: old)
            account.revokeReplaced(ended, by: issued.session, for: request)
        }
        return (issued.ticket, issued.session)
    }

    /// Spends the code, and creates the session.
    private func complete(
        _ accepted: Accepted, _ attempt: LoginAttempt, _ counted: SignInAttempt?
    ) async throws(LoginFailure) -> (session: Session, fields: [AccountResponse.Field]) {
        let request = attempt.request
        let signIn = try await redeem(accepted, attempt, counted)
        try check(signIn, for: accepted, at: request.wallTime + attempt.elapsed)
        let (ticket, session) = try await issue(signIn, for: accepted, attempt)
        attempt.succeeded(session, at: accepted.provider)
        let fields = account.sessionFields(
            ticket, of: session, isRequested: accepted.login.isPersistent, for: request,
            now: request.now + attempt.elapsed)
        return (session, fields)
    }

    /// Continues at the configured redirect of an app, with a parameter. The browser gets no session.
    /// - Returns: `nil` for a login of the browser, and of an app that was removed.
    private func continuing(
        in login: PendingLogin, with result: (name: String, value: String), _ cleared: [String]
    ) -> AccountResponse? {
        guard let (app, _) = logins.parties(of: login), let port = login.app?.port else { return nil }
        return continuing(at: app.url(port: port, result), title: "Continue", in: app, cleared)
    }

    /// A `Strict` cookie is not sent with a redirect that another site began, so a document continues instead. Where
    /// another program may get the code of an app, the user has to follow its link.
    private func continuing(
        at target: String, title: String = "Signed in", in app: AppConfiguration? = nil, _ cleared: [String],
        _ fields: [AccountResponse.Field] = []
    ) -> AccountResponse {
        let fields = fields + cleared.map { AccountResponse.Field("Set-Cookie", $0) }
        guard app?.needsConfirmation ?? (account.session.cookie.sameSite == .strict) else {
            var response = AccountResponse.redirect(to: target, cookies: [])
            response.fields += fields
            return response
        }
        return LoginPage.continuation(
            at: target, title: title, isAutomatic: app == nil,
            text: app.map { "Continue in \($0.label ?? $0.name)" } ?? "Continue",
            theme: logins.theme, fields: fields)
    }
}
