import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("The endpoints of several sites")
struct SiteEndpointsTests {
    private let store = ScriptedStore(CallRecorder())

    private func at(_ site: SiteTag, _ ticket: SessionTicket) -> SessionTicket {
        var ticket = ticket
        ticket.site = site
        return ticket
    }

    @Test("Rule 104: a sign-in creates a session of its site, which the endpoints of other sites neither show nor end")
    func ticketOfAnotherSiteIsUnknown() async throws {
        let (main, admin) = (try LoginEndpoints(store: store), try LoginEndpoints(site: "admin", store: store))
        let ticket = try await admin.newSession()
        for site in [SiteTag.main, SiteTag("ops")] {
            #expect(await main.whoAmI(at(site, ticket)).problem?.reason == .noSession)
            #expect(await main.signOut(at(site, ticket)).status == 204)
        }
        #expect(await admin.whoAmI(at(SiteTag("admin"), ticket)).status == 200)
        let own = try await main.newSession()
        #expect(await main.whoAmI(own).status == 200)
        #expect(await admin.whoAmI(at(SiteTag("admin"), own)).problem?.reason == .noSession)
    }

    @Test("Rule 105: a login that begins at one site does not end at another, whose provider receives no code")
    func loginOfAnotherSite() async throws {
        let (main, admin) = (try LoginEndpoints(store: store), try LoginEndpoints(site: "admin", store: store))
        for (begin, end) in [(main, admin), (admin, main)] {
            let browser = LoginBrowser(begin)
            let query = try await browser.begin()
            let other = LoginBrowser(end, cookies: browser.cookies)
            #expect(await other.callback(query).problem?.code == .loginExpired)
            #expect(other.ticket == nil)
            #expect(await browser.callback(query).status == 303)
        }
        #expect([main, admin].map(\.provider.redemptions.count) == [1, 1])
    }

    @Test("Rule 105: a sign-out that continues at a provider continues at its own site only")
    func signOutOfAnotherSite() throws {
        func cookies(_ site: String) -> LoginCookies {
            LoginCookies(
                CookieConfiguration(), timeout: .seconds(600), pending: 3, sealing: KeyedSealing(), site: site)
        }
        let sites = ["", "admin", "ops"]
        for site in sites {
            let value = try #require(
                cookies(site).signOutCookieValue(url: "https://id.example.com/out", now: LoginFixture.now))
            let opened = sites.filter {
                cookies($0).signOutURL(among: [LoginFixture.received(value)], now: LoginFixture.now) != nil
            }
            #expect(opened == [site])
        }
    }

    private struct Named: AccountEndpointHandler {
        let name: String

        func respond(_ request: AccountRequest) async -> AccountResponse {
            AccountResponse(status: 200, content: .json(Array(name.utf8)))
        }
    }

    @Test("Rule 105: a site has the endpoints of what its users sign in with, and no others")
    func present() async {
        let endpoints = SiteEndpoints([
            (AccountsConfiguration(), Named(name: "main")),
            (AccountsConfiguration(upstream: nil, identities: [.provider(0)]), Named(name: "admin")),
        ])
        let expected: [(AccountEndpoint, [String])] = [
            (.signIn, ["main", "404", "404"]), (.pageSignIn, ["main", "404", "404"]),
            (.login, ["404", "admin", "404"]), (.callback, ["404", "admin", "404"]),
            (.logout, ["404", "admin", "404"]), (.backChannel, ["404", "admin", "404"]),
            (.currentSession, ["main", "admin", "404"]), (.signOut, ["main", "admin", "404"]),
            (.page, ["main", "admin", "404"]),
        ]
        for (endpoint, names) in expected {
            for (site, name) in names.enumerated() {
                var request = AccountRequest(endpoint: endpoint, now: LoginFixture.now.sessionTime)
                request.site = site
                let response = await endpoints.respond(request)
                #expect(response.json ?? "\(response.status)" == name, "\(endpoint) at \(site)")
            }
        }
    }

    @Test("A site has its own public URL, providers and cookie, and the other settings are shared")
    func configuration() {
        var configuration = GatewayConfiguration.defaults
        configuration.accounts = AccountsConfiguration(
            prefix: "/x", upstream: 0, publicURL: "https://app.test", identities: [.provider(0), .upstream(0)])
        configuration.session.cookie.persistence = .onRequest
        var admin = SiteConfiguration(name: "admin")
        admin.hosts = ["admin.test"]
        admin.publicURL = "https://admin.test"
        admin.identities = [.provider(1)]
        admin.sameSite = .lax
        configuration.sites = [SiteConfiguration(configuration.accounts), admin]
        #expect(configuration.site(0) == configuration && configuration.site(2) == configuration)
        let own = configuration.site(1)
        #expect(own.accounts.publicURL == "https://admin.test" && own.accounts.prefix == "/x")
        #expect(own.accounts.identities == [.provider(1)] && own.accounts.upstream == nil)
        #expect(own.session.cookie.sameSite == .lax && own.session.cookie.persistence == .onRequest)
        var accounts = configuration.accounts
        accounts.add(admin)
        #expect(accounts.identities == [.provider(0), .upstream(0), .provider(1)] && accounts.upstream == 0)
    }
}
