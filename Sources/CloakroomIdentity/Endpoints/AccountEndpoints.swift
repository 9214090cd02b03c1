public import CloakroomCore
public import Tracing

/// Signs people in and out, tells them who they are and where else they are signed in: the gateway's own endpoints.
///
/// It brings a store, an upstream and an observer together and keeps nothing itself. Whatever happens has an answer; a
/// store that is not there is 503 and never 401, for nobody is signed out by an outage.
public struct AccountController: AccountEndpointHandler {
    /// Seconds after which trying again makes sense when there was no room or no store.
    static let retryAfter = 5
    /// What a browser throws away at sign-out, so that who sits down next finds nothing: answers it kept, and what pages
    /// stored. Not `"cookies"`, which would take those of every host of the site; ours goes by `Set-Cookie`.
    static let clearSiteData = #""cache", "storage""#

    let store: any SessionStore
    let client: any TokenClient
    let observer: any AccountObserver
    let session: SessionConfiguration
    let accounts: AccountsConfiguration
    let cookie: SessionCookie
    let hashes: AccountHasher
    /// `nil` where the plan throttles nothing.
    let throttle: SignInRateLimiter?
    let spans: SpanFactory
    /// Whose tokens `client` deals in; it is given those of no other source.
    let source: SessionSource
    let revocations: TokenRevocations

    /// Makes the endpoints.
    /// - Parameters:
    ///   - hashes: What accounts are called in logs and counted by.
    ///   - source: Whose tokens `client` deals in: what new sessions record.
    ///   - revocations: Revokes the tokens of sessions that are ended by their names; `nil` makes one.
    ///   - tracer: Makes the spans `sign_in` and `sign_out` for requests that are sampled: below
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

    /// Answers one request, after the calls to store and upstream that it takes.
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

    /// Never slides the idle timeout: a page that asks now and then would keep a session alive that nobody uses.
    ///
    /// A 401 leaves the cookie alone. It opens nothing, and an answer that comes late would take the new ticket of
    /// somebody who has signed in again meanwhile: clearing goes by name, not by value.
    private func whoAmI(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session in
            AccountResponse(status: 200, content: document(session))
        }
    }

    /// Answers for whoever has a session, and otherwise says why there is none: 401, or 503 if that cannot be told. The
    /// idle timeout goes on as it was.
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

    /// Ends the session, and only then tells the upstream: what follows may fail, and the ticket is dead already.
    ///
    /// Without a session the answer is the same. Whoever asks is signed out afterwards, which is what they wanted, and a
    /// request that is sent again because its answer was lost is no error.
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
                // The session goes on, so its cookie stays: with it the sign-out can be tried again.
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

    /// Makes a session's tokens void at the upstream, as well as that can be done.
    /// - Returns: Whether it could be.
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

    /// A problem with the sentence that the plan has for it, if it has one.
    func problem(_ code: ProblemCode, status: Int? = nil, retryAfter: Int? = nil) -> AccountResponse {
        AccountResponse(Problem(code, status: status, detail: accounts.messages[code], retryAfter: retryAfter))
    }

    func storeFailure(_ error: SessionStoreError) -> AccountResponse {
        switch error.kind {
        case .full: problem(.overloaded, retryAfter: Self.retryAfter)
        case .unavailable: problem(.storeUnavailable, retryAfter: Self.retryAfter)
        }
    }

    /// The plan's sentence for `unauthorized` is about wrong credentials, and nobody gave any here.
    private func unauthorized(_ reason: UnauthorizedReason) -> AccountResponse {
        AccountResponse(Problem(.unauthorized, reason: reason))
    }
}
