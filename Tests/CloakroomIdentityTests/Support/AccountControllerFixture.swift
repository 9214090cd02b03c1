import CloakroomIdentity
import TestSupport
import Testing
import Tracing

@testable import CloakroomCore

/// Account endpoints with a scripted store and client.
struct AccountControllerFixture {
    static let now = Upstreams.now.sessionTime
    static let userJSON = #"{"id":1,"email":"jo@example.com","score":1.50}"#

    let journal = CallRecorder()
    let store: ScriptedStore
    let client: ScriptedClient
    let observer = RecordingObserver()
    let devices: DeviceSessions?
    let endpoints: AccountController

    static let account = AccountName(email: "jo@example.com")

    /// - Parameter upstream: The client; `nil` for ``client``.
    init(
        messages: [ProblemCode: String] = [:], cookie: CookieConfiguration = CookieConfiguration(),
        isThrottled: Bool = true,
        signInsPerAddress: Int = 100, maxSessionsPerAccount: Int = 100, page: SignInPage? = nil,
        upstream: (any TokenClient)? = nil, keys: [UInt8]? = nil, device: DeviceConfiguration = DeviceConfiguration(),
        apps: [AppConfiguration] = [], store shared: ScriptedStore? = nil, tracer: (any Tracer)? = nil,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        store = shared ?? ScriptedStore(journal)
        devices = DeviceSessions(device, sealing: KeyedSealing(), observer: observer)
        client = ScriptedClient(journal, signIn: .success(Self.signedIn("1")))
        endpoints = AccountController(
            store: store, clients: TokenClients(signIn: (.unknown, upstream ?? client)), observer: observer,
            session: SessionConfiguration(maxSessionsPerAccount: maxSessionsPerAccount, cookie: cookie),
            accounts: AccountsConfiguration(
                messages: messages, isThrottled: isThrottled, signInsPerAddress: signInsPerAddress, apps: apps),
            accounts: AccountHasher(Upstreams.accountKey), page: page, keys: keys, devices: devices,
            tracer: tracer, sleep: sleep)
    }

    static func signedIn(_ number: String, account: AccountName = account) -> SignInResult {
        SignInResult(
            tokens: TokenSet(
                authorization: Secret("Bearer canary-access-\(number)"),
                refreshToken: Secret("canary-refresh-\(number)"), obtainedAt: now.wallTime),
            user: UserProfile(json: Array(userJSON.utf8), account: account))
    }

    func signIn(
        _ body: String = #"{"email":"jo@example.com","password":"canary-password"}"#, ticket: SessionTicket? = nil,
        from peer: String = "192.0.2.1", userAgent: String? = nil,
        metadata: FetchMetadata = FetchMetadata(isGET: false), at now: SessionTime = now
    ) async -> AccountResponse {
        await endpoints.respond(
            AccountRequest(
                endpoint: .signIn, fetchMetadata: metadata, userAgent: userAgent, ticket: ticket,
                contentType: "application/json",
                body: Secret(body), traceparent: "00-trace", now: now, origin: AuditContext(peer: peer)))
    }

    /// Signs in with an e-mail address.
    func signIn(email: String, from peer: String = "192.0.2.1", at now: SessionTime = now) async -> AccountResponse {
        await signIn(#"{"email":"\#(email)","password":"canary-password"}"#, from: peer, at: now)
    }

    /// Calls one of the endpoints for a user's sessions.
    func sessions(
        _ endpoint: AccountEndpoint, _ name: String? = nil, ticket: SessionTicket?, at now: SessionTime = now
    ) async -> AccountResponse {
        await endpoints.respond(
            AccountRequest(endpoint: endpoint, name: name, ticket: ticket, traceparent: "00-trace", now: now))
    }

    /// Creates another session in the store.
    func session(
        of account: AccountName = account, from client: SessionClientInfo = SessionClientInfo(),
        at now: SessionTime = now
    ) async throws -> (SessionTicket, Session) {
        let signedIn = Self.signedIn("x", account: account)
        return try await store.create(
            NewSession(user: signedIn.user, tokens: signedIn.tokens, client: client), now: now)
    }

    /// The name of the ticket's session.
    func id(of ticket: SessionTicket) throws -> SessionID { try require(store.active(ticket, now: Self.now)).id }

    func whoAmI(_ ticket: SessionTicket?, at now: SessionTime = now) async -> AccountResponse {
        await endpoints.respond(AccountRequest(endpoint: .currentSession, ticket: ticket, now: now))
    }

    func signOut(_ ticket: SessionTicket?) async -> AccountResponse {
        await endpoints.respond(
            AccountRequest(endpoint: .signOut, ticket: ticket, traceparent: "00-trace", now: Self.now))
    }

    /// A request whose session cookies are ambiguous.
    func respond(_ endpoint: AccountEndpoint, ambiguous tickets: [SessionTicket]) async -> AccountResponse {
        var request = AccountRequest(
            endpoint: endpoint, contentType: "application/json",
            body: Secret(#"{"email":"jo@example.com","password":"canary-password"}"#), now: Self.now)
        request.endingTickets = tickets
        return await endpoints.respond(request)
    }

    /// Signs in and returns the ticket from the cookie.
    func ticket() async throws -> SessionTicket {
        try await require(signIn().ticket)
    }
}

extension AccountResponse {
    func values(of name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// The ticket that the response sets.
    var ticket: SessionTicket? {
        guard
            let value = values(of: "Set-Cookie").first?.split(separator: "=").dropFirst().first?.split(separator: ";")
                .first
        else { return nil }
        return SessionTicket(cookieValue: Array(value.utf8).span)
    }

    /// The JSON document, as text.
    var json: String? {
        if case .json(let bytes) = content { String(decoding: bytes, as: UTF8.self) } else { nil }
    }

    /// All parts of the response that reach a client, as text.
    var everything: String {
        let problem = problem.map { "\($0.title) \($0.detail) \($0)" } ?? ""
        return "\(status) " + fields.map { "\($0.name): \($0.value)\n" }.joined() + (json ?? html ?? "") + problem
    }
}
