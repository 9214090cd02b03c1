import Synchronization
import TestSupport
import Testing
import Tracing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// The endpoints of a gateway where users sign in at scripted providers, and with a password.
struct LoginEndpoints {
    static let now = LoginFixture.now
    static let navigation = FetchMetadata(isGET: true, mode: "navigate", destination: "document")

    let journal = CallRecorder()
    let store: ScriptedStore
    let provider: ScriptedProvider
    let partner: ScriptedProvider
    /// Revokes the tokens of all providers.
    let client: ScriptedClient
    let observer = RecordingObserver()
    let endpoints: AccountController

    /// The keys of two secrets, the newest first.
    static let hashes = AccountHasher(Upstreams.accountKey, older: [KeyedHash(key0: 5, key1: 6)])

    /// - Parameters:
    ///   - hasPartner: Whether there is a second provider.
    ///   - hasClients: Whether the sources of sessions have a client.
    ///   - site: The name of their site.
    ///   - store: That of another replica; `nil` creates one.
    init(
        sameSite: CookieConfiguration.SameSite = .lax, hasPartner: Bool = false,
        login: LoginConfiguration = LoginConfiguration(returnTo: "/home"), isThrottled: Bool = true,
        persistence: CookieConfiguration.Persistence = .never, messages: [ProblemCode: String] = [:],
        routes: [Route]? = nil, hasClients: Bool = true, site: String = "", store: ScriptedStore? = nil,
        hashes: AccountHasher = Self.hashes,
        passParameters: [IdentityConfiguration.PassedParameter] = [], apps: [AppConfiguration] = [],
        tracer: (any Tracer)? = nil
    ) throws {
        self.store = store ?? ScriptedStore(journal)
        client = ScriptedClient(journal, signIn: .failure(TokenClientError(.rejected, in: .signIn)))
        provider = ScriptedProvider(passParameters: passParameters)
        partner = ScriptedProvider("partner", issuer: "https://id.partner.example")
        let providers = hasPartner ? [provider, partner] : [provider]
        let cookie = CookieConfiguration(sameSite: sameSite, persistence: persistence)
        var accounts = AccountsConfiguration(
            messages: messages, isThrottled: isThrottled, publicURL: "https://app.example.com",
            identities: providers.indices.map { .provider($0) }, login: login)
        accounts.apps = apps
        var configuration = GatewayConfiguration(
            listeners: [], upstreams: [], routes: try routes ?? Self.routes(), accounts: accounts)
        configuration.session = SessionConfiguration(cookie: cookie)
        var upstream = UpstreamConfiguration(name: "api", targets: [])
        upstream.claimHeaders = [ClaimHeader("X-Groups", claim: "groups", separator: UInt8(ascii: ","))]
        configuration.upstreams = [upstream]
        let clients = TokenClients(
            signIn: (.unknown, client),
            others: hasClients ? [provider.configuration.source: client, partner.configuration.source: client] : [:])
        endpoints = AccountController(
            store: self.store, clients: clients, observer: observer, session: configuration.session, accounts: accounts,
            accounts: hashes,
            logins: ProviderLogins(
                providers, configuration, routes: RouteTable(configuration), sealing: KeyedSealing(), site: site),
            site: site.isEmpty ? .main : SiteTag(site), tracer: tracer)
    }

    /// The route `invoice` requires the context `mfa`, and an authentication in the last 10 minutes.
    static func routes() throws -> [Route] {
        var routes = try ["/", "/home", "/episodes"].enumerated().map { index, path in
            Route(name: "r\(index)", methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: true)
        }
        var invoice = Route(
            name: "invoice", methods: ["GET"], pattern: try PathPattern("/invoice"), requiresAuthorization: true)
        invoice.require = SessionRequirement(acr: ["mfa"], maxAge: .seconds(600))
        routes.append(invoice)
        return routes
    }

    /// Signs the user of the provider in, in a browser of its own.
    func newSession(at now: WallTime = now) async throws -> SessionTicket {
        let browser = LoginBrowser(self)
        _ = try await browser.signIn(at: now)
        return try require(browser.ticket)
    }

    /// Posts a logout token to the back-channel endpoint.
    func postLogout(
        _ body: String = "logout_token=a.b.c", name: String? = nil,
        contentType: String? = "application/x-www-form-urlencoded", ticket: SessionTicket? = nil,
        at now: WallTime = now
    ) async -> AccountResponse {
        await endpoints.respond(
            AccountRequest(
                endpoint: .backChannel, name: name, ticket: ticket, contentType: contentType, body: Secret(body),
                now: now.sessionTime, origin: AuditContext(peer: "198.51.100.1")))
    }

    func whoAmI(_ ticket: SessionTicket?, at now: WallTime = now) async -> AccountResponse {
        await endpoints.respond(AccountRequest(endpoint: .currentSession, ticket: ticket, now: now.sessionTime))
    }

    func signOut(_ ticket: SessionTicket?) async -> AccountResponse {
        await endpoints.respond(AccountRequest(endpoint: .signOut, ticket: ticket, now: Self.now.sessionTime))
    }

    /// The last login event: outcome and reason.
    var lastLogin: (outcome: AccountEvent.LoginOutcome, identity: String, reason: String?)? {
        for case .login(let outcome, let identity, let reason, _, _) in observer.all.reversed() {
            return (outcome, identity, reason)
        }
        return nil
    }
}

/// A browser: keeps the cookies that it is sent, and sends those that it has.
final class LoginBrowser: Sendable {
    let gateway: LoginEndpoints
    let peer: String
    private let jar: Mutex<[String: String]>

    /// - Parameter cookies: Those that it begins with.
    init(_ gateway: LoginEndpoints, peer: String = "192.0.2.1", cookies: [String: String] = [:]) {
        self.gateway = gateway
        self.peer = peer
        jar = Mutex(cookies)
    }

    var cookies: [String: String] { jar.withLock { $0 } }

    var ticket: SessionTicket? {
        cookies["__Host-cloakroom"].flatMap { SessionTicket(cookieValue: Array($0.utf8).span) }
    }

    var loginCookies: [ReceivedCookie] {
        cookies.filter { $0.key.hasPrefix("__Host-cloakroom-login-") }
            .map { ReceivedCookie(name: $0.key, value: Array($0.value.utf8)) }
    }

    func set(_ cookie: ReceivedCookie) {
        jar.withLock { $0[cookie.name] = String(decoding: cookie.value, as: UTF8.self) }
    }

    /// Navigates to `login` below the accounts prefix.
    /// - Parameter sendsTicket: Whether the browser sends the session cookie: a `Strict` one not with a link of another
    ///   site.
    func login(
        _ query: String = "", sendsTicket: Bool = true, metadata: FetchMetadata = LoginEndpoints.navigation,
        at now: WallTime = LoginFixture.now
    ) async -> AccountResponse {
        await send(.login, query, ticket: sendsTicket ? ticket : nil, metadata, now)
    }

    /// Returns from a provider.
    /// - Parameters:
    ///   - name: The last path segment.
    ///   - sendsTicket: Whether the session cookie comes along: a `Strict` one does not.
    func callback(
        _ query: String, name: String? = nil, sendsTicket: Bool = true,
        metadata: FetchMetadata = LoginEndpoints.navigation, at now: WallTime = LoginFixture.now
    ) async -> AccountResponse {
        await send(.callback, query, name: name, ticket: sendsTicket ? ticket : nil, metadata, now)
    }

    /// Posts JSON, as the HTTP client of an app does.
    func post(
        _ endpoint: AccountEndpoint, _ json: String, contentType: String = "application/json",
        at now: WallTime = LoginFixture.now
    ) async -> AccountResponse {
        let response = await gateway.endpoints.respond(
            AccountRequest(
                endpoint: endpoint, loginCookies: loginCookies, ticket: ticket, contentType: contentType,
                body: Secret(json), now: now.sessionTime, origin: AuditContext(peer: peer)))
        receive(response)
        return response
    }

    /// Begins a login and returns with a code.
    func signIn(_ query: String = "", sendsTicket: Bool = true, at now: WallTime = LoginFixture.now)
        async throws
        -> AccountResponse
    {
        await expect(login(query, at: now).status, equals: 303)
        return await callback(try returned(), sendsTicket: sendsTicket, at: now)
    }

    /// Begins a login.
    /// - Returns: The query with which the provider sends the browser back.
    func begin(_ rest: String = "code=canary-code") async throws -> String {
        await expect(login().status, equals: 303)
        return try returned(rest)
    }

    /// The query with which the provider sends the browser back from the latest login, or the one with the given index.
    func returned(_ rest: String = "code=canary-code", login index: Int? = nil) throws -> String {
        let all = gateway.provider.secrets
        let secrets = try require(index.map { all[$0] } ?? all.last)
        return "state=\(Base64URL.encode(secrets.state))&\(rest)"
    }

    private func send(
        _ endpoint: AccountEndpoint, _ query: String, name: String? = nil, ticket: SessionTicket?,
        _ metadata: FetchMetadata, _ now: WallTime
    ) async -> AccountResponse {
        let response = await gateway.endpoints.respond(
            AccountRequest(
                endpoint: endpoint, name: name, query: Array(query.utf8), loginCookies: loginCookies,
                fetchMetadata: metadata, ticket: ticket, now: now.sessionTime, origin: AuditContext(peer: peer)))
        receive(response)
        return response
    }

    private func receive(_ response: AccountResponse) {
        for line in response.values(of: "Set-Cookie") {
            let cookie = LoginFixture.received(line)
            let value = line.hasSuffix("Max-Age=0") ? nil : String(decoding: cookie.value, as: UTF8.self)
            jar.withLock { $0[cookie.name] = value }
        }
    }
}

extension AccountResponse {
    /// The target of a redirect.
    var location: String? { values(of: "Location").first }
}
