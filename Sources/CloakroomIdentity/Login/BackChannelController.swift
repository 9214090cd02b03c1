import CloakroomCore

/// Receives the logout tokens of providers: `POST` to `backchannel` below the accounts prefix (OpenID Connect
/// Back-Channel Logout §2.5 to §2.8).
///
/// Any client can post here. Only the token counts: no cookie is read or set. Providers send a token again after 503,
/// so each step may be repeated: the token is marked as processed when all sessions have ended.
struct BackChannelController: Sendable {
    let account: AccountController
    let logins: ProviderLogins

    func respond(_ request: AccountRequest) async -> AccountResponse {
        guard let provider = logins.provider(ofPath: request.name) else { return account.problem(.notFound) }
        guard SignInRequestParser.isForm(request.contentType),
            let token = FormURLEncodedBody.read(request.body.bytes)?["logout_token"], !token.isEmpty
        else { return rejected("malformed_request", at: provider, request) }
        let logout: LogoutToken
        do throws(TokenClientError) {
            logout = try await provider.verifyLogoutToken(
                Array(token.utf8), from: request.origin.peer, now: request.wallTime)
        } catch {
            if case .failed(let defect) = error.kind { return rejected(defect.name, at: provider, request) }
            return failed(.identityUnavailable, "keys_unavailable", at: provider, request)
        }
        do throws(SessionStoreError) {
            try await end(logout, at: provider, request)
            return AccountResponse(status: 200)
        } catch {
            return failed(.storeUnavailable, "store_unavailable", at: provider, request)
        }
    }

    private func end(
        _ logout: LogoutToken, at provider: any LoginProvider, _ request: AccountRequest
    ) async throws(SessionStoreError) {
        let store = account.store
        let processed = account.hashes.marks(.logoutToken, of: [Array(logout.issuer.utf8), Array(logout.id.utf8)])
        guard try await !store.hasMark(processed, now: request.now) else { return }
        // Before the sessions are searched: a login that completes meanwhile finds either the marks, or its session is
        // found here.
        let latest = LogoutMarks.end(
            of: logout, receivedAt: request.wallTime, skew: provider.configuration.clockSkew)
        for key in LogoutMarks(hashes: account.hashes).keys(of: logout) {
            _ = try await store.setMark(
                key, to: latest, lifetime: logins.login.timeout + .seconds(60), now: request.now)
        }
        var ended: [EndedSession] = []
        let user = logout.subject.map { AccountName(issuer: logout.issuer, subject: $0) }
        do throws(SessionStoreError) {
            if let id = logout.session {
                let session = ProviderSession(issuer: logout.issuer, id: id)
                ended = try await store.takeAll(.provider(session, of: user), reason: .revoked, now: request.now)
            }
            if let user {
                // Sessions have the time of another clock.
                let end = request.now + (latest - request.wallTime)
                ended += try await store.takeAll(
                    .created(user, before: end + .milliseconds(1), isNameless: logout.session != nil),
                    reason: .revoked, now: request.now)
            }
        } catch {
            // The provider sends the token again, which finds the others only.
            ended += error.ended
            if !ended.isEmpty { noteEnd(of: ended, at: provider, request) }
            throw error
        }
        noteEnd(of: ended, at: provider, request)
        let lifetime = logout.replayableUntil - request.wallTime + provider.configuration.clockSkew
        _ = try await store.setMark(
            processed, lifetime: min(max(lifetime, .seconds(1)), .seconds(3_600)), now: request.now)
    }

    /// Their tokens are not revoked: the provider has ended what they belong to, except for offline access (§2.7).
    private func noteEnd(of sessions: [EndedSession], at provider: any LoginProvider, _ request: AccountRequest) {
        account.observer.accountEvent(
            .providerLogout(sessions.map(\.id), identity: provider.configuration.name), from: request.origin)
    }

    /// 400: sending the token again is useless (§2.8).
    private func rejected(
        _ reason: String, at provider: any LoginProvider, _ request: AccountRequest
    ) -> AccountResponse {
        note(reason, provider, request)
        return AccountResponse(status: 400, content: .json(Array(#"{"error":"invalid_request"}"#.utf8)))
    }

    /// 503: the provider has to send the token again.
    private func failed(
        _ code: ProblemCode, _ reason: String, at provider: any LoginProvider, _ request: AccountRequest
    ) -> AccountResponse {
        note(reason, provider, request)
        return account.problem(code, retryAfter: AccountController.retryAfter)
    }

    private func note(_ reason: String, _ provider: any LoginProvider, _ request: AccountRequest) {
        account.observer.accountEvent(
            .providerLogoutFailed(identity: provider.configuration.name, reason: reason), from: request.origin)
    }
}
