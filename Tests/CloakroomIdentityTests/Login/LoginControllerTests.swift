import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("GET of login below the accounts prefix")
struct LoginControllerTests {
    private let browser: LoginBrowser
    private var gateway: LoginEndpoints { browser.gateway }

    init() throws { browser = LoginBrowser(try LoginEndpoints()) }

    @Test("redirects to the default provider with a login cookie, and records that")
    func begins() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        let browser = LoginBrowser(gateway)
        let response = await browser.login("returnTo=%2Fepisodes%3Fpage%3D2")
        expect(response.status, equals: 303)
        let state = Base64URL.encode(try require(gateway.provider.secrets.first).state)
        expect(response.location, equals: "https://id.example.com/authorize?state=\(state)")
        expect(response.values(of: "Referrer-Policy"), equals: ["no-referrer"])
        expect(response.content, equals: .none)
        let cookies = response.values(of: "Set-Cookie")
        expect(cookies.count, equals: 1)
        expect(cookies.allSatisfy { $0.hasSuffix("; Path=/; HttpOnly; Secure; SameSite=Lax; Max-Age=600") })
        let login = try require(LoginFixture.pending(browser.loginCookies))
        expect(login.returnTarget, equals: "/episodes?page=2")
        expect(login.startedAt, equals: LoginEndpoints.now)
        expect(login.replaces == nil && login.route == nil && login.subjectHash == nil && !login.isPersistent)
        expect(gateway.observer.all, equals: [.loginBegan(identity: "company")])
        expect(empty: gateway.journal.all)
    }

    @Test("Identity rule 1: every login has its own secrets, and reveals none but the state")
    func everyLoginHasItsOwnSecrets() async throws {
        var seen: Set<[UInt8]> = []
        for _ in 0..<50 {
            let browser = LoginBrowser(gateway)
            let response = await browser.login()
            let secrets = try require(gateway.provider.secrets.last)
            for value in [secrets.state, secrets.nonce, secrets.verifier] { expect(seen.insert(value).inserted) }
            let location = try require(response.location)
            expect(!location.contains(Base64URL.encode(secrets.verifier)))
        }
    }

    @Test(
        "Identity rule 11: only a navigation begins a login; all else gets 403 and no cookie",
        arguments: [
            FetchMetadata(isGET: true, mode: "cors", destination: "empty", accept: "text/html"),
            FetchMetadata(isGET: true, mode: "no-cors", destination: "image"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "iframe"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "frame"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "object"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "document", purpose: "prefetch"),
            FetchMetadata(isGET: true, mode: "navigate", destination: "document", purpose: "prefetch;prerender"),
            FetchMetadata(isGET: true, mode: "websocket", destination: "websocket"),
            FetchMetadata(isGET: true, accept: "application/json"), FetchMetadata(isGET: true, accept: "*/*"),
            FetchMetadata(isGET: true), FetchMetadata(isGET: false, mode: "navigate", destination: "document"),
        ])
    func xhrIsNeverRedirected(metadata: FetchMetadata) async throws {
        let response = await browser.login(metadata: metadata)
        expect(response.problem?.status, equals: 403)
        expect(response.problem?.code, equals: .crossSite)
        expect(response.location, equals: nil)
        expect(empty: response.values(of: "Set-Cookie"))
        expect(response.values(of: "Vary"), equals: [FetchMetadata.vary])
        expect(empty: gateway.provider.secrets)
        expect(empty: gateway.observer.all)
    }

    @Test("A browser without Fetch Metadata that accepts HTML begins a login")
    func oldBrowser() async throws {
        let metadata = FetchMetadata(isGET: true, accept: "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
        await expect(browser.login(metadata: metadata).status, equals: 303)
    }

    @Test("The identity is chosen by its name; each has a redirect URI of its own")
    func identity() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        let browser = LoginBrowser(gateway)
        let response = await browser.login("identity=partner&unknown=1")
        expect(response.location?.hasPrefix("https://id.partner.example/authorize?"), equals: true)
        expect(empty: gateway.provider.secrets)
        expect(gateway.observer.all, equals: [.loginBegan(identity: "partner")])
    }

    @Test(
        "Unknown names and malformed queries get a page with 400, and no cookie",
        arguments: [
            "identity=other", "identity=", "identity=Company", "identity=api", "for=other", "for=", "for=INVOICE",
            "identity=company&identity=company", "returnTo=/&returnTo=//evil.example", "returnTo=%", "returnTo=%zz",
            "x=%FF", "x=1&x=2", "identity=company%00", "for=invoice%20", "x=\(String(repeating: "a", count: 4_096))",
        ])
    func malformed(query: String) async throws {
        let response = await browser.login(query)
        expect(response.status, equals: 400)
        expect(response.html?.contains("The parameters of the sign-in are invalid."), equals: true)
        expect(empty: response.values(of: "Set-Cookie"))
        expect(empty: gateway.provider.secrets)
    }

    @Test(
        "Identity rule 8: the browser continues only at a route of the gateway",
        arguments: [
            ("%2Fepisodes", "/episodes"), ("%2Fepisodes%3Fa%3Db%26c", "/episodes?a=b&c"),
            ("%2Fepis%256Fdes", "/episodes"),
            ("", "/home"), ("%2F.%2Fepisodes", "/home"), ("%2Fnowhere", "/home"), ("%2F%2Fevil.example", "/home"),
            ("%2F%5Cevil.example", "/home"),
            ("%2F%255cevil.example", "/home"), ("%2F%09%2Fevil.example", "/home"), ("%2F%2509%2Fevil.example", "/home"),
            ("https%3A%2F%2Fevil.example%2Fepisodes", "/home"), ("https%3Aevil.example", "/home"),
            ("javascript%3Aalert(1)", "/home"), ("%5C%5Cevil.example", "/home"), ("%2F%0D%0ASet-Cookie%3Aa", "/home"),
            ("%2Fepisodes%23%2F%2Fevil.example", "/home"), ("episodes", "/home"), ("%2Fauth%2Flogin", "/home"),
            ("%2Fauth", "/home"), ("%2Fepisodes%3F\(String(repeating: "a", count: 400))", "/home"),
            ("%2F%E2%80%A6", "/home"), ("%2F%00", "/home"),
        ])
    func returnToLeadsOnlyToRoutes(requested: String, target: String) async throws {
        try await expect(browser.signIn("returnTo=\(requested)").location, equals: target)
    }

    @Test("Identity rule 3: at the limit the oldest login makes way, unreadable cookies first; the new one never fails")
    func oldestPendingLoginMakesWay() async throws {
        for second in 0..<5 { _ = await browser.login(at: LoginFixture.now + .seconds(Int64(second))) }
        expect(browser.loginCookies.count, equals: 3)
        browser.set(ReceivedCookie(name: "__Host-cloakroom-login-AAAAAAAA", value: Array("forged".utf8)))
        browser.set(
            ReceivedCookie(name: "__Host-cloakroom-login-BBBBBBBB", value: Array(repeating: 0x61, count: 4_000)))
        let response = await browser.login(at: LoginFixture.now + .seconds(5))
        expect(response.status, equals: 303)
        expect(browser.loginCookies.count, equals: 3)
        // The three latest can be completed, each in its tab.
        for index in 3...5 {
            let query = try browser.returned(login: index)
            await expect(browser.callback(query, at: LoginFixture.now + .seconds(6)).status, equals: 303)
        }
        await expect(browser.callback(try browser.returned(login: 2)).status, equals: 400)
    }

    @Test(
        "Identity rule 10: a failure of the provider has a page, no cookie, and an event",
        arguments: [
            (TokenClientError.Kind.unreachable, 503, "push_unavailable"),
            (.failed(.invalidResponse), 502, "invalid_response"),
            (.denied("invalid_scope"), 502, "invalid_scope"),
            (.denied("canary-provider-text"), 502, "provider_error"),
            (.misconfigured(.invalidClient), 502, "invalid_client"),
        ])
    func providerFails(kind: TokenClientError.Kind, status: Int, reason: String) async throws {
        gateway.provider.failLogin(TokenClientError(kind, in: .push))
        let response = await browser.login("returnTo=%2Fepisodes")
        expect(response.status, equals: status)
        expect(response.html?.contains("href=\"/home\""), equals: true)
        expect(empty: response.values(of: "Set-Cookie"))
        expect(response.values(of: "Retry-After"), equals: (status == 503 ? ["5"] : []))
        expect(!response.everything.contains("canary"))
        expect(gateway.lastLogin?.reason, equals: reason)
        let misconfigured = gateway.observer.all.contains(
            .identityMisconfigured(.invalidClient, in: .push, of: "company"))
        expect(misconfigured, equals: kind == .misconfigured(.invalidClient))
        expect(!"\(gateway.observer.all)".contains("canary"))
    }

    @Test("Identity rule 27: without the store no login begins, with and without a session")
    func storeDown() async throws {
        gateway.store.fail(.throttle, .unavailable)
        await expect(browser.login().status, equals: 503)
        gateway.store.recover(.throttle)
        _ = try await browser.signIn()
        gateway.store.becomeRemote()
        gateway.store.fail(.load, .unavailable)
        let response = await browser.login()
        expect(response.status, equals: 503)
        expect(response.values(of: "Retry-After"), equals: ["5"])
        expect(empty: response.values(of: "Set-Cookie"))
        expect(gateway.lastLogin?.outcome, equals: .storeError)
        expect(gateway.provider.secrets.count, equals: 1)
    }

    @Test("The cookie names the session that the new one replaces")
    func replaces() async throws {
        let gateway = try LoginEndpoints(sameSite: .strict)
        let browser = LoginBrowser(gateway)
        _ = try await browser.signIn()
        let ticket = try require(browser.ticket)
        let session = try require(gateway.store.active(ticket, now: LoginFixture.now.sessionTime))
        _ = await browser.login("persistent=1")
        let login = try require(LoginFixture.pending(browser.loginCookies))
        expect(login.replaces, equals: session.key)
        expect(login.isPersistent)
    }

    /// A navigation that another site began.
    private static func navigation(from site: String) -> FetchMetadata {
        FetchMetadata(isGET: true, mode: "navigate", destination: "document", site: site)
    }

    @Test(
        "Only the gateway's own pages and the user request a persistent session",
        arguments: [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)])
    func persistentLink(site: String, isPersistent: Bool) async throws {
        await expect(browser.login("persistent=1", metadata: Self.navigation(from: site)).status, equals: 303)
        expect(LoginFixture.pending(browser.loginCookies)?.isPersistent, equals: isPersistent)
    }

    @Test(
        "A link on another site replaces no session: the browser continues with the one that it has",
        arguments: ["", "&identity=partner", "&persistent=1", "&for=r1"])
    func foreignLink(parameters: String) async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        let browser = LoginBrowser(gateway)
        let link = "returnTo=%2Fepisodes" + parameters
        let foreign = Self.navigation(from: "cross-site")
        // Without a session it begins a login.
        await expect(browser.login(link, metadata: foreign).location?.contains("/authorize?"), equals: true)
        let state = Base64URL.encode(try require((gateway.provider.secrets + gateway.partner.secrets).first).state)
        let name = parameters.contains("partner") ? "partner" : "company"
        await expect(browser.callback("state=\(state)&code=a", name: name).status, equals: 303)
        let response = await browser.login(link, metadata: foreign)
        expect(response.status, equals: 303)
        expect(response.location, equals: "/episodes")
        expect(empty: response.values(of: "Set-Cookie"))
        expect(gateway.provider.secrets.count + gateway.partner.secrets.count, equals: 1)
        // The same link on an own page begins a login, and so does one for a step-up.
        let own = await browser.login(link, metadata: Self.navigation(from: "same-origin"))
        expect(own.location?.contains("/authorize?"), equals: true)
        await expect(browser.login("for=invoice", metadata: foreign).location?.contains("/authorize?"), equals: true)
    }

    @Test("A link on another site ends no session of a password, not even for a route that requires a step-up")
    func foreignStepUpOfPassword() async throws {
        let signedIn = AccountControllerFixture.signedIn("1")
        let (ticket, _) = try await gateway.store.create(
            NewSession(user: signedIn.user, tokens: signedIn.tokens), now: LoginFixture.now.sessionTime)
        browser.set(ReceivedCookie(name: "__Host-cloakroom", value: Array(ticket.cookieValue.utf8)))
        let link = "for=invoice&returnTo=%2Fepisodes"
        await expect(browser.login(link, metadata: Self.navigation(from: "cross-site")).location, equals: "/episodes")
        expect(empty: gateway.provider.secrets)
        await expect(gateway.whoAmI(ticket).status, equals: 200)
        // The user may change to the provider.
        let own = await browser.login(link, metadata: Self.navigation(from: "same-origin"))
        expect(own.location?.contains("/authorize?"), equals: true)
    }

    @Test(
        "A link on another site, whose browser withholds a Strict cookie, replaces no session",
        arguments: ["", "&identity=partner", "&persistent=1", "&for=r1", "&foreign=1"])
    func foreignLinkWithStrictCookie(parameters: String) async throws {
        let gateway = try LoginEndpoints(sameSite: .strict, hasPartner: true, persistence: .onRequest)
        let browser = LoginBrowser(gateway)
        await expect(browser.login().status, equals: 303)
        let returned = try browser.returned()
        await expect(browser.callback(returned, name: "company", sendsTicket: false).status, equals: 200)
        let link = "returnTo=%2Fepisodes" + parameters
        let page = await browser.login(link, sendsTicket: false, metadata: Self.navigation(from: "cross-site"))
        expect(page.status, equals: 200)
        expect(page.location == nil && page.values(of: "Set-Cookie").isEmpty)
        let address = try require(Self.link(of: page))
        expect(address.hasPrefix("/auth/login?"))
        // No loop: a browser that comes back without the cookie stops there.
        expect(page.html?.contains("http-equiv"), equals: !parameters.contains("foreign"))
        let response = await browser.login(
            String(address.dropFirst("/auth/login?".count)), metadata: Self.navigation(from: "same-origin"))
        expect(response.status, equals: 303)
        expect(response.location, equals: "/episodes")
        expect(empty: response.values(of: "Set-Cookie"))
        expect(gateway.provider.secrets.count + gateway.partner.secrets.count, equals: 1)
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
    }

    @Test("A link on another site continues with the same parameters, and never with a persistent session")
    func continuation() async throws {
        let gateway = try LoginEndpoints(sameSite: .strict, hasPartner: true, persistence: .onRequest)
        let foreign = Self.navigation(from: "cross-site")
        for returnTo in ["%2Finvoice%3Fa%3D1%26b%3D2", "%2F%2Fevil.example"] {
            let browser = LoginBrowser(gateway)
            let link = "for=invoice&identity=partner&persistent=1&unknown=1&returnTo=" + returnTo
            let page = await browser.login(link, sendsTicket: false, metadata: foreign)
            expect(page.html?.contains("evil"), equals: false)
            let query = try require(Self.link(of: page)).dropFirst("/auth/login?".count)
            let response = await browser.login(String(query), metadata: Self.navigation(from: "same-origin"))
            expect(response.location?.hasPrefix("https://id.partner.example/authorize?"), equals: true)
            let login = try require(LoginFixture.pending(browser.loginCookies))
            expect(login.returnTarget, equals: returnTo.contains("evil") ? "/home" : "/invoice?a=1&b=2")
            expect(login.route == "invoice" && !login.isPersistent)
        }
        await expect(LoginBrowser(gateway).login("x=%FF", sendsTicket: false, metadata: foreign).status, equals: 400)
    }

    @Test("A step-up of a link on another site is one of the user of the session, with a Strict cookie too")
    func foreignStepUpWithStrictCookie() async throws {
        let gateway = try LoginEndpoints(sameSite: .strict)
        let browser = LoginBrowser(gateway)
        _ = try await browser.signIn(sendsTicket: false)
        let page = await browser.login(
            "for=invoice", sendsTicket: false, metadata: Self.navigation(from: "cross-site"))
        let query = try require(Self.link(of: page)).dropFirst("/auth/login?".count)
        _ = await browser.login(String(query), metadata: Self.navigation(from: "same-origin"))
        let login = try require(LoginFixture.pending(browser.loginCookies))
        expect(login.subjectHash, equals: PendingLogin.hash(ofIssuer: LoginFixture.issuer, subject: "jo"))
        expect(login.replaces != nil)
    }

    /// The target of the only link of a page.
    private static func link(of page: AccountResponse) -> String? {
        let parts = page.html?.split(separator: "<a href=\"") ?? []
        guard parts.count == 2 else { return nil }
        return String(parts[1].prefix { $0 != "\"" }.replacing("&amp;", with: "&"))
    }

    @Test("A link on another site begins a login if the source of the session was removed: no loop of redirects")
    func foreignLinkWithRemovedSource() async throws {
        _ = try await browser.signIn()
        let removed = try LoginEndpoints(hasClients: false, store: gateway.store)
        let later = LoginBrowser(removed)
        later.set(ReceivedCookie(name: "__Host-cloakroom", value: Array(try require(browser.ticket).cookieValue.utf8)))
        let response = await later.login(metadata: Self.navigation(from: "cross-site"))
        expect(response.location?.contains("/authorize?"), equals: true)
    }

    @Test("Identity rule 24: for a route, the request has its requirement and the login the subject of the session")
    func stepUp() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.partner.state { $0.acr = "mfa" }
        let browser = LoginBrowser(gateway)
        await expect(browser.login("identity=partner").status, equals: 303)
        let state = Base64URL.encode(try require(gateway.partner.secrets.last).state)
        await expect(browser.callback("state=\(state)&code=a", name: "partner").status, equals: 303)
        // The provider of the session is the default then.
        let response = await browser.login("for=invoice&returnTo=%2Finvoice")
        expect(response.location?.hasPrefix("https://id.partner.example/authorize?"), equals: true)
        expect(gateway.partner.stepUps.last, equals: .init(acr: ["mfa"], maxAge: .seconds(600)))
        let login = try require(LoginFixture.pending(browser.loginCookies))
        expect(login.route, equals: "invoice")
        expect(login.subjectHash, equals: PendingLogin.hash(ofIssuer: "https://id.partner.example", subject: "jo"))
        // An ordinary login of the same browser begins at the first provider.
        await expect(browser.login().location?.hasPrefix("https://id.example.com/authorize?"), equals: true)
    }

    @Test("A route without a requirement is an ordinary login, and so is one without a session, except for its check")
    func stepUpWithoutSession() async throws {
        _ = await browser.login("for=r1")
        expect(gateway.provider.stepUps, equals: [nil])
        expect(LoginFixture.pending(browser.loginCookies)?.route, equals: nil)
        let other = LoginBrowser(gateway)
        _ = await other.login("for=invoice")
        expect(gateway.provider.stepUps.last, equals: .init(acr: ["mfa"], maxAge: .seconds(600)))
        let login = LoginFixture.pending(other.loginCookies)
        expect(login?.route, equals: "invoice")
        expect(login?.subjectHash, equals: nil)
    }

    @Test("Without providers there is no such endpoint")
    func absent() async throws {
        let subject = AccountControllerFixture()
        for endpoint in [AccountEndpoint.login, .callback, .logout, .backChannel, .app, .appCode, .keys] {
            let request = AccountRequest(
                endpoint: endpoint, fetchMetadata: LoginEndpoints.navigation, now: LoginEndpoints.now.sessionTime)
            await expect(subject.endpoints.respond(request).problem?.status, equals: 404)
        }
    }
}
