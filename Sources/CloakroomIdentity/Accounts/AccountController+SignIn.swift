import CloakroomCore
import Tracing

extension AccountController {
    /// Exchanges credentials for a session.
    ///
    /// Every sign-in creates a new ticket. The session whose ticket came with the request ends only after the new
    /// session exists, so a failed sign-in changes nothing.
    func signIn(_ request: AccountRequest) async -> AccountResponse {
        guard let source = clients.signInSource, let client = clients[source] else { return problem(.notFound) }
        let name = accounts.apps.isEmpty ? nil : AppController.members(of: request)?["app"]
        let app = accounts.apps.first { TokenClaims.isSame($0.name, name?.string ?? "") }
        guard name == nil || app != nil else { return AccountResponse(Problem(.notFound, detail: "No such app.")) }
        return await spans.withSpan("sign_in") { span in
            let start = AttemptStart(span: span, app: app?.name)
            switch await checkCredentials(of: request, with: client, since: start) {
            case .rejected(let response): return response
            case .accepted(let signedIn, let accountHash, let attempt):
                let isPersistent =
                    session.cookie.persistence == .onRequest && SignInRequestParser.requestsPersistence(request)
                let now = request.now + (ContinuousClock.now - start.time)
                // At the same time: neither depends on the other.
                async let isRemoved: Void? = attempt?.succeeded(now: now)
                let response = await createSession(
                    signedIn, source: source, app: app, accountHash: accountHash, isPersistent: isPersistent,
                    since: start, for: request.redacted)
                _ = await isRemoved
                return response
            }
        }
    }

    /// Signs in with the credentials of a request that is not one for an endpoint: for a session without a ticket, in no
    /// store. It is not refreshed, because the client repeats its credentials.
    /// - Parameter maximum: How long the session is valid, unless its access token expires before.
    func signIn(_ request: AccountRequest, key: SessionKey, maximum: Duration) async -> RefreshOutcome {
        guard let source = clients.signInSource, let client = clients[source] else {
            return .failed(Problem(.unauthorized, reason: .invalidCredentials))
        }
        return await spans.withSpan("sign_in") { span in
            let start = AttemptStart(span: span)
            switch await checkCredentials(of: request, with: client, since: start) {
            case .rejected(let response):
                // A name and a password that cannot be valid are wrong ones here.
                let isInvalid = [422, nil].contains(response.problem?.status)
                let wrong = Problem(.unauthorized, reason: .invalidCredentials)
                return .failed(isInvalid ? wrong : response.problem ?? wrong)
            case .accepted(let signedIn, let accountHash, let attempt):
                await attempt?.succeeded(now: request.now + (ContinuousClock.now - start.time))
                note(.success, accountHash: accountHash, since: start, request)
                var tokens = signedIn.tokens
                tokens.refreshToken = nil
                let now = request.wallTime
                let end = min(now + maximum, tokens.accessTokenExpiresAt ?? now + maximum)
                return .active(
                    Session(
                        key: key, user: signedIn.user, tokens: tokens, source: source, createdAt: now.sessionTime,
                        expiresAt: end.sessionTime, lastUsedAt: now.sessionTime))
            }
        }
    }

    /// The start time of an attempt, its span if it is traced, and the name of its app.
    private struct AttemptStart {
        let time = ContinuousClock.now
        let span: (any Span)?
        var app: String?
    }

    private enum CredentialCheck {
        case accepted(SignInResult, accountHash: UInt64, SignInAttempt?)
        case rejected(AccountResponse)
    }

    /// Parses the credentials, applies the throttle, and has the upstream check them. The credentials are released
    /// before the function returns.
    private func checkCredentials(
        of request: AccountRequest, with client: any TokenClient, since start: AttemptStart
    ) async -> CredentialCheck {
        let credentials: Credentials
        do {
            credentials = try SignInRequestParser.read(request, name: accounts.name)
        } catch {
            note(.invalid, accountHash: nil, since: start, request)
            let isText = error == .invalid && accounts.name.kind == .text
            return .rejected(problem(error.code, detail: isText ? "Enter a user name and a password." : nil))
        }
        // All spellings of an e-mail address map to the same account, in the throttle and in the log.
        let account = credentials.account
        let accountHash = hashes.hash(account)
        var attempt: SignInAttempt?
        do throws(SessionStoreError) {
            switch try await throttle?.admit(account, from: request.origin.peer, now: request.now) {
            case .throttled(let wait):
                note(.throttled, accountHash: accountHash, since: start, request)
                return .rejected(problem(.throttled, retryAfter: SignInThrottle.retryAfter(wait)))
            case .admitted(let admitted): attempt = admitted
            case nil: break
            }
        } catch {
            note(.storeError, accountHash: accountHash, since: start, request)
            return .rejected(storeFailure(error))
        }
        do {
            let signedIn = try await client.signIn(credentials, traceparent: request.traceparent, now: request.wallTime)
            return .accepted(signedIn, accountHash: accountHash, attempt)
        } catch {
            // Users do not wait because the upstream was unavailable. Every other failure counts: an upstream may
            // reject a wrong password in a form unknown to the gateway, also by closing the connection or by not
            // responding.
            if error.isUnjudged {
                await attempt?.release(now: request.now + (ContinuousClock.now - start.time))
            }
            attempt?.failed()
            observer.note(error, of: nil, from: request.origin)
            note(error.kind.effects.signIn, accountHash: accountHash, since: start, request)
            return .rejected(upstreamFailure(error))
        }
    }

    private func createSession(
        _ signedIn: SignInResult, source: SessionSource, app: AppConfiguration?, accountHash: UInt64,
        isPersistent: Bool, since start: AttemptStart, for request: AccountRequest
    ) async -> AccountResponse {
        do throws(SessionStoreError) {
            let new = newSession(
                user: signedIn.user, tokens: signedIn.tokens, source: source, app: app, for: request)
            let (ticket, session, replaced) = try await issueSession(new, for: request)
            note(.success, accountHash: accountHash, since: start, request)
            // Runs before the response: the upstream has just responded, the client bounds the wait, and work that
            // outlives its request would have to be counted and awaited separately.
            for old in replaced { await revoke(old, for: request) }
            let now = request.now + (ContinuousClock.now - start.time)
            return AccountResponse(
                status: 200,
                fields: sessionFields(ticket, of: session, isRequested: isPersistent, for: request, now: now),
                content: document(session))
        } catch {
            note(.storeError, accountHash: accountHash, since: start, request)
            return storeFailure(error)
        }
    }

    private func upstreamFailure(_ error: TokenClientError) -> AccountResponse {
        var problem = error.kind.effects.problem
        if error.kind == .rejected {
            problem.detail = "The \(accounts.name.kind == .email ? "email" : "name")/password combination is invalid."
        }
        return AccountResponse(worded(problem))
    }

    private func note(
        _ outcome: AccountEvent.SignInOutcome, accountHash: UInt64?, since start: AttemptStart,
        _ request: AccountRequest
    ) {
        start.span?.setOutcome(
            outcome: outcome.rawValue, isError: [.upstreamError, .storeError, .misconfigured].contains(outcome))
        var origin = request.origin
        origin.app = start.app
        observer.accountEvent(
            .signIn(outcome: outcome, accountHash: accountHash, duration: ContinuousClock.now - start.time),
            from: origin)
    }
}

extension AccountRequest {
    /// A copy of the request without the credentials of the sign-in.
    fileprivate var redacted: AccountRequest {
        var request = self
        request.body = Secret(bytes: [])
        request.authorization = nil
        return request
    }
}
