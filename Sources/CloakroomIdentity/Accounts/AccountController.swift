public import CloakroomCore
public import Tracing

/// The gateway's own endpoints: sign-in, sign-out, the current session, and the user's other sessions.
///
/// Combines a store, an upstream and an observer, and keeps no state of its own. Every failure has a response. An
/// unavailable store is 503 and never 401, because an outage must not sign users out.
///
/// Folder `Accounts/`: responds to the gateway's own endpoints: signs users in and out, lists and ends their sessions.
public struct AccountController: AccountEndpointHandler {
    /// `Retry-After` in seconds if the limit is reached or the store is unavailable.
    static let retryAfter = 5
    /// The data that a browser deletes at sign-out, so that the next user of the browser finds nothing: cached
    /// responses and storage of the pages. Not `"cookies"`, which would delete those of every host of the site; the
    /// session cookie is deleted with `Set-Cookie`.
    static let clearSiteData = #""cache", "storage""#

    let store: any SessionStore
    let client: any TokenClient
    let observer: any AccountObserver
    let session: SessionConfiguration
    let accounts: AccountsConfiguration
    let cookie: SessionCookie
    let hashes: AccountHasher
    /// `nil` if the configuration throttles nothing.
    let throttle: SignInRateLimiter?
    let spans: SpanFactory
    /// The source of the tokens that `client` handles. Tokens of other sources are not passed to the client.
    let source: SessionSource
    let revocations: TokenRevocations

    /// Creates the endpoints.
    /// - Parameters:
    ///   - hashes: Hashes account names for logs and counters.
    ///   - source: The source of the tokens that `client` handles; recorded in new sessions.
    ///   - revocations: Revokes the tokens of sessions that are ended by id; `nil` creates one.
    ///   - tracer: Creates the spans `sign_in` and `sign_out` for sampled requests, as children of
    ///     ``ServiceContext/current``.
    public init(
        store: any SessionStore, client: any TokenClient, observer: any AccountObserver, session: SessionConfiguration,
        accounts: AccountsConfiguration, accounts hashes: AccountHasher, source: SessionSource = .unknown,
        revocations: TokenRevocations? = nil, tracer: (any Tracer)? = nil
    ) {
        self.store = store
        self.client = client
        self.observer = observer
        self.session = session
        self.accounts = accounts
        self.hashes = hashes
        throttle =
            accounts.isThrottled
            ? SignInRateLimiter(store: store, key: hashes.newest, signInsPerAddress: accounts.signInsPerAddress) : nil
        cookie = SessionCookie(session.cookie)
        spans = SpanFactory(tracer)
        self.source = source
        self.revocations =
            revocations ?? TokenRevocations(client: client, observer: observer, source: source)
    }

    /// Handles one request, including the necessary calls to store and upstream, and returns its response.
    public func respond(_ request: AccountRequest) async -> AccountResponse {
        switch request.endpoint {
        case .signIn: await signIn(request)
        case .currentSession: await whoAmI(request)
        case .signOut: await signOut(request)
        case .listSessions: await listSessions(request)
        case .endOtherSessions: await endOtherSessions(request)
        case .endSession: await endSession(request)
        }
    }

    /// Never extends the idle timeout: a page that polls this endpoint would keep an unused session alive.
    ///
    /// A 401 does not clear the cookie. An invalid cookie grants nothing, and cookies are cleared by name, not by
    /// value: a late response would delete the new ticket of a user who has signed in again in the meantime.
    private func whoAmI(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session in
            AccountResponse(status: 200, content: document(session))
        }
    }

    /// Calls the closure if the request has a session. Otherwise responds with 401 and the reason, or with 503 if the
    /// store cannot be read. The idle timeout is not extended.
    func withSession(
        of request: AccountRequest, _ body: (Session) async throws(SessionStoreError) -> AccountResponse
    ) async -> AccountResponse {
        guard let ticket = request.ticket else { return unauthorized(.noSession) }
        do throws(SessionStoreError) {
            switch try await lookUp(ticket, now: request.now) {
            case .active(let session) where session.source == source: return try await body(session)
            case .active:
                _ = try await store.end(ticket, reason: .sourceRemoved, now: request.now)
                return unauthorized(SessionEndReason.sourceRemoved.unauthorizedReason)
            case .missing(let reason): return unauthorized(reason)
            case .notCached: return storeFailure(SessionStoreError(.unavailable))
            }
        } catch {
            return storeFailure(error)
        }
    }

    private func lookUp(_ ticket: SessionTicket, now: Timestamp) async throws(SessionStoreError) -> SessionLookup {
        let lookup = store.lookup(ticket, now: now, slides: false)
        guard case .notCached = lookup else { return lookup }
        return try await store.load(ticket, now: now)
    }

    /// Ends the session before calling the upstream: if the later steps fail, the ticket is already invalid.
    ///
    /// Without a session the response is the same. The client is signed out in either case, and repeating a request
    /// whose response was lost is not an error.
    func signOut(_ request: AccountRequest) async -> AccountResponse {
        guard let ticket = request.ticket else { return signedOut }
        return await spans.withSpan("sign_out") { span in
            do throws(SessionStoreError) {
                if let ended = try await store.end(ticket, reason: .signedOut, now: request.now) {
                    observer.accountEvent(.signOut(ended.id), from: request.origin)
                    let isRevoked = await revoke(ended, for: request)
                    span?.setOutcome(outcome: isRevoked ? "success" : "revoke_failed", isError: !isRevoked)
                } else {
                    span?.setOutcome(outcome: "no_session", isError: false)
                }
                return signedOut
            } catch {
                span?.setOutcome(outcome: "store_error", isError: true)
                // The session still exists, so its cookie is kept and the sign-out can be repeated.
                return storeFailure(error)
            }
        }
    }

    private var signedOut: AccountResponse {
        AccountResponse(
            status: 204,
            fields: [
                AccountResponse.Field("Set-Cookie", cookie.clearCookieValue),
                AccountResponse.Field("Clear-Site-Data", Self.clearSiteData),
            ])
    }

    /// Revokes a session's tokens at the upstream, on a best-effort basis.
    /// - Returns: Whether they were revoked.
    @discardableResult
    func revoke(_ session: Session, for request: AccountRequest) async -> Bool {
        // Tokens of another upstream are not sent to this one.
        guard session.source == source else {
            observer.accountEvent(.revokeFailed(session.id), from: request.origin)
            return false
        }
        do {
            try await client.revoke(session.tokens, traceparent: request.traceparent)
            return true
        } catch {
            observer.accountEvent(.revokeFailed(session.id), from: request.origin)
            return false
        }
    }

    func document(_ session: Session) -> AccountResponse.Content {
        .json(SessionDocument.make(session, idleTimeout: self.session.idleTimeout))
    }

    /// A problem response with the configured sentence, if there is one.
    /// - Parameter detail: The sentence instead of the code's usual one; a configured one takes precedence.
    func problem(
        _ code: ProblemCode, status: Int? = nil, detail: String? = nil, retryAfter: Int? = nil
    ) -> AccountResponse {
        AccountResponse(
            Problem(code, status: status, detail: accounts.messages[code] ?? detail, retryAfter: retryAfter))
    }

    func storeFailure(_ error: SessionStoreError) -> AccountResponse {
        switch error.kind {
        case .full: problem(.overloaded, retryAfter: Self.retryAfter)
        case .unavailable: problem(.storeUnavailable, retryAfter: Self.retryAfter)
        }
    }

    /// The configured sentence for `unauthorized` is about wrong credentials; this request carried none.
    private func unauthorized(_ reason: UnauthorizedReason) -> AccountResponse {
        AccountResponse(Problem(.unauthorized, reason: reason))
    }
}

/// Lists and ends the sessions of the signed-in user.
///
/// These requests do not extend the idle timeout of the requesting session. Ended sessions are invalid immediately on
/// every replica. Their tokens are revoked upstream in the background if the store can open the sessions. The memory
/// store can; a store with sealed sessions needs the ticket, and the audit line records that the tokens were not
/// revoked. For the requesting session the ticket is available.
extension AccountController {
    /// Responds with 200 and the sessions of the requesting user.
    func listSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            let all = try await ownSessions(of: session, now: request.now)
            return AccountResponse(status: 200, content: .json(SessionListDocument.make(all, current: session.id)))
        }
    }

    /// Responds with 200 and `{"ended": n}`, which saves the page a second request for the number.
    func endOtherSessions(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            var ended = try await store.takeAll(
                of: session.user.account, but: session.id, reason: .revoked, now: request.now)
            if let name = typedAccount(of: session) {
                // One by one: `takeAll` would also end sessions of another user id with the same typed name.
                do throws(SessionStoreError) {
                    for other in try await store.sessions(of: name, now: request.now) {
                        let one = try await store.take(other.id, of: name, reason: .revoked, now: request.now)
                        if let one { ended.append(one) }
                    }
                } catch {
                    // The sessions ended so far are logged and their tokens revoked; the request can be repeated.
                    noteEnd(of: ended, by: session, request)
                    throw error
                }
            }
            noteEnd(of: ended, by: session, request)
            return AccountResponse(status: 200, content: .json(Array(#"{"ended":\#(ended.count)}"#.utf8)))
        }
    }

    /// Responds with 204, or with 404 for anything that is not a session of the requesting user. The response does not
    /// reveal whether it is a session of another user. Ending the requesting session signs the user out.
    func endSession(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session throws(SessionStoreError) in
            guard let id = request.name.flatMap({ SessionID($0) }) else { return problem(.notFound) }
            guard id != session.id else { return await signOut(request) }
            guard let ended = try await takeOwn(id, of: session, reason: .revoked, now: request.now) else {
                return problem(.notFound)
            }
            noteEnd(of: [ended], by: session, request)
            return AccountResponse(status: 204)
        }
    }

    /// The account of the same user's sessions that were created without a user id: by an earlier release, or while the
    /// `user` call returned none. `nil` if it is the session's own account.
    private func typedAccount(of session: Session) -> AccountName? {
        session.user.name == session.user.account ? nil : session.user.name
    }

    /// All sessions of the user of the given session, the most recent first.
    func ownSessions(of session: Session, now: Timestamp) async throws(SessionStoreError) -> [SessionSummary] {
        let all = try await store.sessions(of: session.user.account, now: now)
        guard let name = typedAccount(of: session) else { return all }
        return (all + (try await store.sessions(of: name, now: now))).sorted { $0.createdAt > $1.createdAt }
    }

    /// Ends one of the sessions that ``ownSessions(of:now:)`` lists.
    func takeOwn(
        _ id: SessionID, of session: Session, reason: SessionEndReason, now: Timestamp
    ) async throws(SessionStoreError) -> EndedSession? {
        let ended = try await store.take(id, of: session.user.account, reason: reason, now: now)
        guard ended == nil, let name = typedAccount(of: session) else { return ended }
        return try await store.take(id, of: name, reason: reason, now: now)
    }

    private func noteEnd(of ended: [EndedSession], by session: Session, _ request: AccountRequest) {
        guard !ended.isEmpty else { return }
        let tokens = revocations.revoke(ended)
        observer.accountEvent(
            .signOutOthers(ended.map(\.id), by: session.id, tokens: tokens), from: request.origin)
    }
}
