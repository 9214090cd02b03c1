import TestSupport
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
            await expect(main.whoAmI(at(site, ticket)).problem?.reason, equals: .noSession)
            await expect(main.signOut(at(site, ticket)).status, equals: 204)
        }
        await expect(admin.whoAmI(at(SiteTag("admin"), ticket)).status, equals: 200)
        let own = try await main.newSession()
        await expect(main.whoAmI(own).status, equals: 200)
        await expect(admin.whoAmI(at(SiteTag("admin"), own)).problem?.reason, equals: .noSession)
    }

    @Test("Rule 105: a login that begins at one site does not end at another, whose provider receives no code")
    func loginOfAnotherSite() async throws {
        let (main, admin) = (try LoginEndpoints(store: store), try LoginEndpoints(site: "admin", store: store))
        for (begin, end) in [(main, admin), (admin, main)] {
            let browser = LoginBrowser(begin)
            let query = try await browser.begin()
            let other = LoginBrowser(end, cookies: browser.cookies)
            await expect(other.callback(query).problem?.code, equals: .loginExpired)
            expect(other.ticket, equals: nil)
            await expect(browser.callback(query).status, equals: 303)
        }
        expect([main, admin].map(\.provider.redemptions.count), equals: [1, 1])
    }

    @Test("Rule 105: a sign-out that continues at a provider continues at its own site only")
    func signOutOfAnotherSite() throws {
        let sites = ["", "admin", "ops"].map { site in
            LoginCookies(
                CookieConfiguration(), timeout: .seconds(600), pending: 3, sealing: KeyedSealing(), site: site)
        }
        for (index, site) in sites.enumerated() {
            let value = try require(site.signOutCookieValue(url: "https://x.example", now: LoginFixture.now))
            let cookie = LoginFixture.received(value)
            let opened = sites.indices.filter { sites[$0].signOutURL(among: [cookie], now: LoginFixture.now) != nil }
            expect(opened, equals: [index])
        }
    }

    @Test("A sign-out revokes tokens of an identity that the site lost; all sites share the sign-ins that wait")
    func shared() async throws {
        let subject = AccountControllerFixture()
        let ticket = try await subject.ticket()
        let undecided = try require(subject.endpoints.throttle).undecided
        let site = AccountController(
            store: subject.store, clients: TokenClients(), observer: subject.observer,
            session: SessionConfiguration(), accounts: AccountsConfiguration(),
            accounts: AccountHasher(Upstreams.accountKey), revoking: subject.endpoints.clients, undecided: undecided)
        expect(site.throttle?.undecided === undecided)
        let now = AccountControllerFixture.now
        await expect(site.respond(AccountRequest(endpoint: .signOut, ticket: ticket, now: now)).status, equals: 204)
        expect(subject.journal.all.suffix(2), equals: ["end signed_out", "revoke canary-refresh-1"])
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
        let expected: [([AccountEndpoint], [String])] = [
            ([.signIn, .pageSignIn], ["main", "404", "404"]),
            ([.login, .callback, .logout, .backChannel, .keys], ["404", "admin", "404"]),
            ([.app, .appCode], ["404", "404", "404"]),
            ([.currentSession, .signOut, .page], ["main", "admin", "404"]),
        ]
        for (names, endpoint) in expected.flatMap({ endpoints, names in endpoints.map { (names, $0) } }) {
            for (site, name) in names.enumerated() {
                var request = AccountRequest(endpoint: endpoint, now: LoginFixture.now.sessionTime)
                request.site = site
                let response = await endpoints.respond(request)
                expect(response.json ?? "\(response.status)", equals: name, "\(endpoint) at \(site)")
            }
        }
    }
}
