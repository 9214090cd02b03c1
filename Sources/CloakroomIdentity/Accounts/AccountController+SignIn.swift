import CloakroomCore
import Tracing

extension AccountController {
    /// Exchanges credentials for a session.
    ///
    /// Every sign-in creates a new ticket. The session whose ticket came with the request ends only after the new
    /// session exists, so a failed sign-in changes nothing.
    func signIn(_ request: AccountRequest) async -> AccountResponse {
        await spans.withSpan("sign_in") { span in
            let start = AttemptStart(span: span)
            switch await verdict(on: request, since: start) {
            case .rejected(let response): return response
            case .accepted(let signedIn, let accountHash):
                return await createSession(
                    signedIn, accountHash: accountHash, since: start, for: request.redacted)
            }
        }
    }

    /// The start time of an attempt, and its span if it is traced.
    private struct AttemptStart {
        let time = ContinuousClock.now
        let span: (any Span)?
    }

    /// The result of the credential check.
    private enum CredentialCheck {
        case accepted(SignInResult, accountHash: UInt64)
        case rejected(AccountResponse)
    }

    /// Parses the credentials, applies the throttle, and has the upstream check them. The credentials are released
    /// before the function returns.
    private func verdict(on request: AccountRequest, since start: AttemptStart) async -> CredentialCheck {
        let credentials: Credentials
        do {
            credentials = try SignInRequestParser.read(request, name: accounts.name)
        } catch {
            note(.invalid, accountHash: nil, since: start, request)
            let isText = error == .invalid && accounts.name.kind == .text
            return .rejected(problem(error.code, detail: isText ? "Enter a user name and a password." : nil))
        }
        // All spellings of an account map to the same account, in the throttle and in the log.
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
            await attempt?.succeeded(now: request.now + (ContinuousClock.now - start.time))
            return .accepted(signedIn, accountHash: accountHash)
        } catch {
            // Users do not wait because the upstream was unavailable. Every other failure counts: an upstream may
            // reject a wrong password in a form unknown to the gateway, also by closing the connection or by not
            // responding.
            if error.isUnjudged {
                await attempt?.release(now: request.now + (ContinuousClock.now - start.time))
            }
            if case .misconfigured(let reason) = error.kind {
                observer.accountEvent(.identityMisconfigured(reason, in: error.call), from: request.origin)
            }
            note(outcome(of: error), accountHash: accountHash, since: start, request)
            return .rejected(upstreamFailure(error))
        }
    }

    private func createSession(
        _ signedIn: SignInResult, accountHash: UInt64, since start: AttemptStart, for request: AccountRequest
    ) async -> AccountResponse {
        do throws(SessionStoreError) {
            let (ticket, session, replaced) = try await replaceSession(signedIn, for: request)
            note(.success, accountHash: accountHash, since: start, request)
            // Runs before the response: the upstream has just responded, the client bounds the wait, and work that
            // outlives its request would have to be counted and awaited separately.
            if let replaced { await revoke(replaced, for: request) }
            return AccountResponse(
                status: 200, fields: [AccountResponse.Field("Set-Cookie", cookie.setCookieValue(ticket))],
                content: document(session))
        } catch {
            note(.storeError, accountHash: accountHash, since: start, request)
            return storeFailure(error)
        }
    }

    /// Creates the new session, then ends the session whose ticket was presented. The operation is atomic: if the store
    /// fails half way, no second session remains and the new tokens are revoked.
    private func replaceSession(
        _ signedIn: SignInResult, for request: AccountRequest
    ) async throws(SessionStoreError) -> (SessionTicket, Session, replaced: Session?) {
        var made: SessionTicket?
        do {
            let userAgent = UserAgentFamily(userAgent: request.userAgent ?? "")
            let new = NewSession(
                user: signedIn.user, tokens: signedIn.tokens,
                client: SessionClientInfo(peer: request.origin.peer, userAgent: userAgent), source: source)
            let (ticket, session) = try await store.create(new, now: request.now)
            made = ticket
            await evictOldestSessions(for: session, request)
            guard let presented = request.ticket else { return (ticket, session, nil) }
            return (ticket, session, try await store.end(presented, reason: .replaced, now: request.now))
        } catch {
            if let made { _ = try? await store.end(made, reason: .replaced, now: request.now) }
            // No session uses these tokens. If the upstream cannot be reached, they expire by themselves.
            try? await client.revoke(signedIn.tokens, traceparent: request.traceparent)
            throw error
        }
    }

    /// Ends the oldest sessions of an account that has too many, so that one user cannot fill the store. A failure here
    /// does not reject the sign-in; the next sign-in tries again.
    private func evictOldestSessions(for session: Session, _ request: AccountRequest) async {
        guard let all = try? await ownSessions(of: session, now: request.now) else { return }
        var ended: [EndedSession] = []
        for oldest in all.dropFirst(self.session.maxSessionsPerAccount) where oldest.id != session.id {
            let one = try? await takeOwn(oldest.id, of: session, reason: .replaced, now: request.now)
            if let one { ended.append(one) }
        }
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(.evicted(ended.map(\.id), tokens: tokens), from: request.origin)
    }

    private func upstreamFailure(_ error: TokenClientError) -> AccountResponse {
        switch error.kind {
        case .rejected:
            AccountResponse(
                Problem(
                    .unauthorized,
                    detail: accounts.messages[.unauthorized]
                        ?? "The \(accounts.name.kind == .email ? "email" : "name")/password combination is invalid.",
                    reason: .invalidCredentials))
        case .unreachable, .busy: problem(.unreachable, status: 502)
        case .timedOut: problem(.unreachable, status: 504)
        case .invalidResponse: problem(.invalidResponse)
        case .misconfigured: problem(.identityMisconfigured)
        }
    }

    private func outcome(of error: TokenClientError) -> AccountEvent.SignInOutcome {
        switch error.kind {
        case .rejected: .rejected
        case .misconfigured: .misconfigured
        case .unreachable, .busy, .timedOut, .invalidResponse: .upstreamError
        }
    }

    private func note(
        _ outcome: AccountEvent.SignInOutcome, accountHash: UInt64?, since start: AttemptStart,
        _ request: AccountRequest
    ) {
        start.span?.setOutcome(
            outcome: outcome.rawValue, isError: [.upstreamError, .storeError, .misconfigured].contains(outcome))
        observer.accountEvent(
            .signIn(outcome: outcome, accountHash: accountHash, duration: ContinuousClock.now - start.time),
            from: request.origin)
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
