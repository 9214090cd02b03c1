public import CloakroomCore
package import Tracing

/// The gateway's own endpoints: sign-in, logins at providers, sign-out, the current session, and the user's other
/// sessions.
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
    let clients: TokenClients
    /// The client of each source that a session may still have.
    let revoking: TokenClients
    let observer: any AccountObserver
    let session: SessionConfiguration
    let accounts: AccountsConfiguration
    let cookie: SessionCookie
    let hashes: AccountHasher
    /// `nil` if the configuration throttles nothing.
    let throttle: SignInRateLimiter?
    let spans: SpanFactory
    let revocations: TokenRevocations
    /// `nil` if users cannot sign in at a provider.
    let logins: ProviderLogins?
    /// `nil` if there is no page.
    let page: SignInPage?
    /// The keys that verify assertions; `nil` if none are signed.
    let keys: [UInt8]?
    /// The site whose endpoints these are.
    let site: SiteTag
    /// `nil` if no session is bound to a device.
    let devices: DeviceSessions?
    let refreshTimeouts: RefreshTimeouts
    let sleep: @Sendable (Duration) async throws -> Void

    /// Creates the endpoints.
    /// - Parameters:
    ///   - hashes: Hashes account names for logs and counters.
    ///   - clients: The client of each source of sessions.
    ///   - revocations: Revokes the tokens of sessions that are ended by id; `nil` creates one.
    ///   - logins: The providers that users may sign in with; `nil` for none.
    ///   - page: The sign-in page; `nil` for none.
    ///   - keys: The key set of assertions; `nil` for none.
    ///   - site: The site at which its new sessions are valid.
    ///   - revoking: The clients that revoke tokens at a sign-out: those of all sites. `nil` for ``clients``.
    ///   - devices: Checks the proofs of sessions that are bound to a device; `nil` if none is.
    ///   - refreshTimeouts: Those of token refreshes, for which the registration of a device's key waits.
    ///   - undecided: The attempts that wait for each other: those of all sites.
    ///   - tracer: Creates the spans `sign_in`, `login`, `login_callback` and `sign_out` for sampled requests, as
    ///     children of ``ServiceContext/current``.
    ///   - sleep: Waits for a duration; throws when its task is cancelled.
    package init(
        store: any SessionStore, clients: TokenClients, observer: any AccountObserver, session: SessionConfiguration,
        accounts: AccountsConfiguration, accounts hashes: AccountHasher,
        revocations: TokenRevocations? = nil, logins: ProviderLogins? = nil, page: SignInPage? = nil,
        keys: [UInt8]? = nil, site: SiteTag = .main, revoking: TokenClients? = nil, devices: DeviceSessions? = nil,
        refreshTimeouts: RefreshTimeouts = RefreshTimeouts(
            call: .seconds(10), lease: .seconds(15), waiting: .seconds(16)),
        undecided: UndecidedAttempts = UndecidedAttempts(), tracer: (any Tracer)? = nil,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.store = store
        self.clients = clients
        self.revoking = revoking ?? clients
        self.observer = observer
        self.session = session
        self.accounts = accounts
        self.hashes = hashes
        throttle =
            accounts.isThrottled
            ? SignInRateLimiter(
                store: store, key: hashes.newest, signInsPerAddress: accounts.signInsPerAddress, undecided: undecided)
            : nil
        cookie = SessionCookie(session.cookie)
        spans = SpanFactory(tracer: tracer)
        self.revocations = revocations ?? TokenRevocations(clients: clients, observer: observer)
        self.logins = logins
        self.page = page
        self.keys = keys
        self.site = site
        self.devices = devices
        self.refreshTimeouts = refreshTimeouts
        self.sleep = sleep
    }

    /// Handles one request, including the necessary calls to store and upstream, and returns its response.
    public func respond(_ request: AccountRequest) async -> AccountResponse {
        switch request.endpoint {
        case .signIn: await signIn(request)
        case .currentSession: await currentSession(request)
        case .signOut: await signOut(request)
        case .listSessions: await listSessions(request)
        case .endOtherSessions: await endOtherSessions(request)
        case .endSession: await endSession(request)
        case .login: await logins.map { LoginController(account: self, logins: $0) }?.respond(request) ?? absent
        case .callback: await logins.map { CallbackController(account: self, logins: $0) }?.respond(request) ?? absent
        case .logout: await logins.map { SignOutController(account: self, logins: $0) }?.respond(request) ?? absent
        case .backChannel:
            await logins.map { BackChannelController(account: self, logins: $0) }?.respond(request) ?? absent
        case .app: await logins.map { AppController(account: self, logins: $0) }?.respond(request) ?? absent
        case .appCode: await logins.map { CallbackController(account: self, logins: $0) }?.exchange(request) ?? absent
        case .keys: keys.map { publish($0) } ?? absent
        case .device: await devices.map { DeviceController(account: self, devices: $0) }?.respond(request) ?? absent
        case .page: await signInPage(request)
        case .pageSignIn: await signInWithPage(request)
        }
    }

    /// Responds with the keys that verify assertions. They are the same for all, so caches may keep them.
    private func publish(_ keys: [UInt8]) -> AccountResponse {
        var response = AccountResponse(status: 200, content: .json(keys))
        response.cacheControl = "public, max-age=300"
        return response
    }

    /// The response of an endpoint that the configuration does not have.
    private var absent: AccountResponse { problem(.notFound) }

    /// Responds with the user and the session, or with 401. Never extends the idle timeout: a page that polls this
    /// endpoint would keep an unused session alive.
    ///
    /// A 401 does not clear the cookie. An invalid cookie grants nothing, and cookies are cleared by name, not by
    /// value: a late response would delete the new ticket of a user who has signed in again in the meantime.
    private func currentSession(_ request: AccountRequest) async -> AccountResponse {
        await withSession(of: request) { session in
            AccountResponse(status: 200, content: document(session))
        }
    }

    /// Calls the closure if the request has a session. Otherwise responds with 401 and the reason, or with 503 if the
    /// store cannot be read. The idle timeout is not extended.
    func withSession(
        of request: AccountRequest, _ body: (Session) async throws(SessionStoreError) -> AccountResponse
    ) async -> AccountResponse {
        do throws(SessionStoreError) {
            switch try await admission(of: request) {
            case .admitted(let session, _): return try await body(session)
            case .missing(let reason): return unauthorized(reason)
            case .notCached: throw SessionStoreError(.unavailable)
            case .denied(.unbound, let session): return unproven(session, request)
            case .denied:
                if let ticket = request.ticket {
                    _ = try await store.end(ticket, reason: .sourceRemoved, now: request.now)
                }
                return unauthorized(SessionEndReason.sourceRemoved.unauthorizedReason)
            }
        } catch {
            return storeFailure(error)
        }
    }

    /// Whether the session of the request may be used; one of a source without a client is denied, and one without the
    /// proof of its device.
    func admission(
        of request: AccountRequest, needsProof: Bool = true
    ) async throws(SessionStoreError) -> SessionAdmission {
        guard let ticket = request.ticket else { return .missing(.noSession) }
        var lookup = store.lookup(ticket, now: request.now, slides: false)
        if case .notCached = lookup { lookup = try await store.load(ticket, now: request.now) }
        if needsProof, let devices, case .active(let session) = lookup {
            var none = AcceptedProof()
            let check = devices.check(session, request.device.cookie.span, accepted: &none, now: request.wallTime)
            if let check, session.device != nil {
                observer.accountEvent(.deviceCheck(check, session.id), from: request.origin.about(session))
            }
            if check == .unproven { return .denied(.unbound, session) }
        }
        return clients.rules.admit(lookup, now: request.wallTime)
    }

    /// 401 for a session without the proof of its device. It neither ends nor is its cookie cleared: the client may be a
    /// thief of the cookie.
    private func unproven(_ session: Session, _ request: AccountRequest) -> AccountResponse {
        let challenge = session.device.flatMap { _ in
            devices?.challengeField(for: session.key, now: request.wallTime)
        }
        return AccountResponse(Problem(.unauthorized, reason: .unproven), fields: challenge.map { [$0] } ?? [])
    }

    /// The path at which clients prove that they have the key of their device.
    var devicePath: String { accounts.prefix + "/device" }

    /// The session that a login of the client replaces, admitted or not; `nil` for none.
    func replaceableSession(
        of request: AccountRequest
    ) async throws(SessionStoreError) -> (session: Session?, isAdmitted: Bool) {
        switch try await admission(of: request) {
        case .admitted(let session, _): (session, true)
        // Without the proof of its device a session is not the client's to replace.
        case .denied(.unbound, _), .missing: (nil, false)
        case .denied(_, let session): (session, false)
        case .notCached: throw SessionStoreError(.unavailable)
        }
    }

    /// Ends the session before calling the upstream: if the later steps fail, the ticket is already invalid.
    ///
    /// Responds with 200 and `{"next": "…"}` if the sign-out continues at the provider (OpenID Connect RP-Initiated
    /// Logout §2): the page navigates there then, see ``SignOutController``. Otherwise responds with 204.
    ///
    /// All sessions of a request with several tickets end: another host may have set one of the cookies. Without a session
    /// the response is the same. The client is signed out in either case, and repeating a request whose response was lost
    /// is not an error.
    func signOut(_ request: AccountRequest) async -> AccountResponse {
        guard !request.endingTickets.isEmpty else { return signedOut }
        return await spans.withSpan("sign_out") { span in
            var (ended, areRevoked): ([Session], Bool) = ([], true)
            var failure: SessionStoreError?
            for ticket in request.endingTickets {
                do throws(SessionStoreError) {
                    let session = try await store.end(ticket, reason: .signedOut, now: request.now)
                    if let session { ended.append(session) }
                } catch {
                    failure = error
                }
            }
            for session in ended {
                observer.accountEvent(.signOut(session.id), from: request.origin.about(session))
                if await !revoke(session, for: request) { areRevoked = false }
            }
            if let failure {
                span?.setOutcome(outcome: "store_error", isError: true)
                // The session still exists, so its cookie is kept and the sign-out can be repeated.
                return storeFailure(failure)
            }
            // The last of several is probably that of the gateway's own cookie, see `SessionCookie.tickets`.
            guard let session = ended.last else {
                span?.setOutcome(outcome: "no_session", isError: false)
                return signedOut
            }
            span?.setOutcome(outcome: areRevoked ? "success" : "revoke_failed", isError: !areRevoked)
            return signedOut(of: session, at: request.wallTime)
        }
    }

    private func signedOut(of session: Session, at now: WallTime) -> AccountResponse {
        var response = signedOut
        if let next = logins?.signOutContinuation(of: session, now: now) {
            response.status = 200
            response.fields += next.cookie.map { [AccountResponse.Field("Set-Cookie", $0)] } ?? []
            response.content = .json(Array(#"{"next":\#(JSONString.quoted(next.url))}"#.utf8))
        }
        return response
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
        // Tokens are sent to no other source than their own.
        guard let client = revoking[session.source] else {
            observer.accountEvent(.revokeFailed(session.id), from: request.origin.about(session))
            return false
        }
        do {
            try await client.revoke(session.tokens, traceparent: request.traceparent)
            return true
        } catch {
            observer.accountEvent(.revokeFailed(session.id), from: request.origin.about(session))
            return false
        }
    }

    func document(_ session: Session) -> AccountResponse.Content {
        .json(SessionDocument.make(session, idleTimeout: session.terms?.idle ?? self.session.idleTimeout))
    }

    /// A problem response with the configured sentence, if there is one.
    /// - Parameter detail: The sentence instead of the code's usual one; a configured one takes precedence.
    func problem(
        _ code: ProblemCode, status: Int? = nil, detail: String? = nil, retryAfter: Int? = nil
    ) -> AccountResponse {
        AccountResponse(worded(Problem(code, status: status, detail: detail, retryAfter: retryAfter)))
    }

    /// The problem with the configured sentence, if there is one.
    func worded(_ problem: Problem) -> Problem {
        var problem = problem
        if let detail = accounts.messages[problem.code] { problem.detail = detail }
        return problem
    }

    func storeFailure(_ error: SessionStoreError) -> AccountResponse {
        switch error.kind {
        case .full: problem(.overloaded, retryAfter: Self.retryAfter)
        case .unavailable: problem(.storeUnavailable, retryAfter: Self.retryAfter)
        }
    }

    /// The configured sentence for `unauthorized` is about wrong credentials; this request carried none.
    func unauthorized(_ reason: UnauthorizedReason) -> AccountResponse {
        AccountResponse(Problem(.unauthorized, reason: reason))
    }
}
