import CloakroomCore

extension AccountEndpoints {
    /// Exchanges credentials for a session.
    ///
    /// Every sign-in makes a new ticket. The session whose ticket came with the request ends once there is the new one,
    /// so that a sign-in that fails leaves everything as it was.
    func signIn(_ request: OwnRequest) async -> OwnResponse {
        let start = ContinuousClock.now
        let credentials: Credentials
        do {
            credentials = try SignInInput.read(request)
        } catch {
            note(.invalid, accountHash: nil, since: start, request)
            return problem(error.code)
        }
        let accountHash = AccountName(email: credentials.email).hash(under: accountKey)
        let signedIn: SignedIn
        do {
            signedIn = try await client.signIn(credentials, traceparent: request.traceparent, now: request.now)
        } catch {
            note(error.kind == .rejected ? .rejected : .upstreamError, accountHash: accountHash, since: start, request)
            return upstreamFailure(error)
        }
        do {
            let (ticket, session, replaced) = try await exchange(signedIn, for: request)
            note(.success, accountHash: accountHash, since: start, request)
            // Before the answer, for the upstream has just shown that it is there, the client bounds the wait, and work
            // that outlives its request would have to be counted and awaited by somebody.
            if let replaced { await revoke(replaced, for: request) }
            return OwnResponse(
                status: 200, fields: [OwnResponse.Field("Set-Cookie", cookie.setting(ticket))],
                content: document(session))
        } catch {
            note(.storeError, accountHash: accountHash, since: start, request)
            return storeFailure(error)
        }
    }

    /// Makes the new session, then ends the one whose ticket was presented. Either both happen or neither: a store that
    /// fails half way leaves no second session behind, and the new tokens are made void.
    private func exchange(
        _ signedIn: SignedIn, for request: OwnRequest
    ) async throws(SessionStoreError) -> (SessionTicket, Session, replaced: Session?) {
        var made: SessionTicket?
        do {
            let (ticket, session) = try await store.create(signedIn.user, tokens: signedIn.tokens, now: request.now)
            made = ticket
            guard let presented = request.ticket else { return (ticket, session, nil) }
            return (ticket, session, try await store.end(presented, reason: .replaced, now: request.now))
        } catch {
            if let made { _ = try? await store.end(made, reason: .replaced, now: request.now) }
            // Nobody will ever use them; if the upstream cannot be told, they end by themselves.
            try? await client.revoke(signedIn.tokens, traceparent: request.traceparent)
            throw error
        }
    }

    private func upstreamFailure(_ error: TokenClientError) -> OwnResponse {
        switch error.kind {
        case .rejected:
            OwnResponse(
                Problem(
                    .unauthorized,
                    detail: accounts.messages[.unauthorized] ?? "The email/password combination is invalid.",
                    reason: .invalidCredentials))
        case .unreachable: problem(.unreachable, status: 502)
        case .timedOut: problem(.unreachable, status: 504)
        case .invalidResponse: problem(.invalidResponse)
        }
    }

    private func note(
        _ outcome: AccountEvent.SignInOutcome, accountHash: UInt64?, since start: ContinuousClock.Instant,
        _ request: OwnRequest
    ) {
        observer.accountEvent(
            .signIn(outcome: outcome, accountHash: accountHash, duration: ContinuousClock.now - start),
            from: request.origin)
    }
}
