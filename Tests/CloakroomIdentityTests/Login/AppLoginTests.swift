import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

/// The client of a login is the HTTP client of an app; the browser is another one.
@Suite("A login of an app in the browser of the system")
struct AppLoginTests {
    private static let apps = [
        ("shop", "com.example.shop:/in"), ("web", "https://app.example.com/app/in"), ("cli", "http://[::1]/in"),
    ].map { name, redirect in
        var app = AppConfiguration(name: name)
        app.redirect = redirect
        return app
    }
    private static let gatewayURL = "https://app.example.com/auth/login?"

    private let gateway: LoginEndpoints
    private let browser: LoginBrowser
    private let client: LoginBrowser

    init() throws {
        gateway = try Self.gateway()
        browser = LoginBrowser(gateway, peer: "192.0.2.2")
        client = LoginBrowser(gateway)
    }

    private static func gateway(
        site: String = "", apps: [AppConfiguration] = apps, store: ScriptedStore? = nil
    ) throws -> LoginEndpoints {
        try LoginEndpoints(
            site: site, store: store,
            passParameters: [.init("login_hint", .length(64)), .init("prompt", .listed(["none", "login"]))], apps: apps)
    }

    /// Begins a login.
    /// - Returns: The query of the URL that the app opens.
    private func begin(
        _ client: LoginBrowser, _ members: String = #""app":"shop""#, at now: WallTime = LoginFixture.now
    ) async throws -> String {
        let response = await client.post(.app, "{\(members)}", at: now)
        let url = try require(response.json?.split(separator: "\"").first { $0.hasPrefix("https://") })
        expect(response.status == 200 && url.hasPrefix(Self.gatewayURL) && url.utf8.count < 900)
        return String(url.dropFirst(Self.gatewayURL.count))
    }

    /// The code of a redirect or a page.
    private func code(of response: AccountResponse) throws -> String {
        let text = response.location ?? response.html ?? ""
        let start = try require(text.firstRange(of: "?code="), "\(response.status)")
        return String(text[start.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" })
    }

    /// Begins a login, and completes the part of the browser.
    private func code(_ client: LoginBrowser, _ members: String = #""app":"shop""#) async throws -> String {
        await expect(browser.login(try await begin(client, members)).status, equals: 303)
        return try code(of: await browser.callback(try browser.returned()))
    }

    private func exchange(
        _ code: String, _ client: LoginBrowser, at now: WallTime = LoginFixture.now
    ) async -> AccountResponse {
        await client.post(.appCode, #"{"code":"\#(code)"}"#, at: now)
    }

    @Test("Identity rule 33: the app gets the session; that of the browser is neither read nor replaced")
    func signsIn() async throws {
        _ = try await browser.signIn()
        let earlier = try require(browser.ticket)
        gateway.provider.state { $0.subject = "al" }
        let code = try await code(client)
        expect(browser.ticket == earlier && browser.loginCookies.isEmpty)
        let response = await exchange(code, client)
        expect(response.status, equals: 200)
        expect(response.json?.hasPrefix(#"{"user":{"sub":"jo","groups":["staff"]},"session":{"#), equals: true)
        expect(Array(client.cookies.keys), equals: ["__Host-cloakroom"])
        expect(client.ticket != earlier && gateway.store.count == 2)
        await expect(gateway.whoAmI(earlier).status, equals: 200)
        expect(gateway.provider.redemptions.last?.code, equals: Secret("canary-code"))
        // The next sign-in of the app replaces its session.
        let first = client.ticket
        await expect(exchange(try await self.code(client), client).status, equals: 200)
        await expect(gateway.whoAmI(first).status, equals: 401)
        expect(gateway.store.count, equals: 2)
    }

    @Test("Identity rule 10: the callbacks of apps are limited with all attempts of the address; a login counts once")
    func attempts() async throws {
        for _ in 0..<50 {
            let code = try await self.code(client)
            await expect(exchange(code, client).status, equals: 200)
        }
        await expect(browser.login(try await begin(client)).status, equals: 303)
        let (query, cookies) = (try browser.returned(), browser.cookies)
        func replay() async -> AccountResponse {
            await LoginBrowser(gateway, peer: browser.peer, cookies: cookies).callback(query)
        }
        for _ in 0..<50 {
            let replayed = try code(of: await replay())
            expect(!replayed.isEmpty)
        }
        let response = await replay()
        expect((response.location ?? response.html)?.contains("error=throttled"), equals: true)
        try await expect(client.signIn().status, equals: 303)
    }

    @Test("Rule 137: the session of an app has the timeouts of the app, and that of the browser has not")
    func terms() async throws {
        var shop = Self.apps[0]
        (shop.idleTimeout, shop.absoluteTimeout) = (.seconds(86_400), .seconds(10 * 86_400))
        let client = LoginBrowser(try Self.gateway(apps: [shop]))
        let response = await exchange(try await code(client), client)
        expect(response.status == 200 && response.json?.contains(#""idleTimeoutSeconds":86400}"#) == true)
        let ticket = try require(client.ticket)
        let session = try require(client.gateway.store.active(ticket, now: LoginFixture.now.sessionTime))
        expect(session.expiresAt, equals: session.createdAt + .seconds(10 * 86_400))
        _ = try await client.signIn()
        let own = try require(client.ticket)
        expect(client.gateway.store.active(own, now: LoginFixture.now.sessionTime)?.terms, equals: nil)
        let observer = client.gateway.observer
        let logins = zip(observer.all, observer.origins).filter { if case .login = $0.0 { true } else { false } }
        expect(logins.map(\.1.app), equals: ["shop", nil])
    }

    @Test(
        "Identity rule 34: stolenCodeIsRejected: only the client that began the login completes it, and nothing is spent"
    )
    func stolenCode() async throws {
        let code = try await code(client)
        let victim = LoginBrowser(gateway, peer: "192.0.2.3")
        await expect(exchange(try await self.code(victim), victim).status, equals: 200)
        let ticket = victim.ticket
        // It has a login of its own: the verifier is another one.
        _ = try await begin(victim)
        for thief in [LoginBrowser(gateway, peer: "192.0.2.4"), browser, victim] {
            let cookies = thief.cookies
            let response = await exchange(code, thief)
            expect(response.problem?.code, equals: .loginExpired)
            expect(gateway.lastLogin?.reason == "other_client" && gateway.observer.origins.last?.app == "shop")
            expect(thief.cookies, equals: cookies)
        }
        await expect(gateway.whoAmI(ticket).status, equals: 200)
        expect(gateway.provider.redemptions.count, equals: 1)
        let events = gateway.observer.all.count
        _ = await gateway.signOut(ticket)
        expect(gateway.observer.origins.dropFirst(events).first?.app, equals: "shop")
        await expect(exchange(code, client).status, equals: 200)
    }

    @Test("Identity rule 34: laterSignInWins: of several logins of a client, only the latest can be completed")
    func latest() async throws {
        let (first, second) = (try await code(client), try await code(client))
        await expect(exchange(first, client).problem?.code, equals: .loginExpired)
        await expect(exchange(second, client).status, equals: 200)
    }

    @Test(
        "Identity rule 34: a wrong client counts against its address, and an expired code does not", arguments: [0, 61])
    func counted(seconds: Int64) async throws {
        let code = try await code(client)
        let thief = LoginBrowser(gateway, peer: "192.0.2.4")
        var isThrottled = false
        for _ in 0..<40 where !isThrottled {
            isThrottled = await exchange(code, thief, at: LoginFixture.now + .seconds(seconds)).status == 429
        }
        expect(isThrottled, equals: seconds == 0)
    }

    @Test("Identity rule 35: usedCodeIsRejected, codeOfAnotherReplica: a code is used once, in any replica")
    func usedCode() async throws {
        let code = try await code(client)
        let replica = try Self.gateway(store: gateway.store)
        let other = LoginBrowser(replica, cookies: client.cookies)
        await expect(exchange(code, other).status, equals: 200)
        await expect(exchange(code, client).problem?.code, equals: .loginExpired)
        expect(gateway.lastLogin?.reason, equals: "used")
        expect(gateway.provider.redemptions.isEmpty && replica.provider.redemptions.count == 1)
    }

    @Test(
        "Identity rule 35: lateCodeIsRejected: a code is valid for 60 s", arguments: [(60, 200), (61, 400), (-61, 400)])
    func lateCode(seconds: Int64, status: Int) async throws {
        let code = try await code(client)
        await expect(exchange(code, client, at: LoginFixture.now + .seconds(seconds)).status, equals: status)
        expect(gateway.provider.redemptions.count, equals: (status == 200 ? 1 : 0))
    }

    @Test(
        "Identity rule 36: redirectIsTheConfiguredOne, of which a client chooses nothing but the port of loopback",
        arguments: [
            (#""app":"shop""#, "com.example.shop:/in?code="), (#""app":"web""#, "https://app.example.com/app/in?code="),
            (#""app":"cli","port":65535"#, "http://[::1]:65535/in?code="),
        ])
    func redirect(members: String, target: String) async throws {
        _ = await browser.login(try await begin(client, members))
        let response = await browser.callback(try browser.returned())
        let isLink = !target.hasPrefix("https:")
        let name = target.hasPrefix("com.") ? "shop" : "cli"
        expect(response.status, equals: (isLink ? 200 : 303))
        expect(response.location?.hasPrefix(target), equals: (isLink ? nil : true))
        if isLink { expect(response.html?.contains("<a href=\"\(target)"), equals: true) }
        expect(response.html?.contains(">Continue in \(name)</a>"), equals: (isLink ? true : nil))
        expect(response.html?.contains("http-equiv") != true)
        expect(response.values(of: "Referrer-Policy"), equals: ["no-referrer"])
        await expect(exchange(try code(of: response), client).status, equals: 200)
    }

    @Test(
        "Identity rule 36: any other member, and invalid values, begin no login",
        arguments: [
            (#"{"app":"other"}"#, 404), (#"{}"#, 422), ("[]", 422), ("{", 422), (#"{"app":1}"#, 422),
            (#"{"app":"shop","redirect":"https://evil.example"}"#, 422), (#"{"app":"shop","port":80}"#, 422),
            (#"{"app":"cli"}"#, 422), (#"{"app":"cli","port":0}"#, 422), (#"{"app":"cli","port":65536}"#, 422),
            (#"{"app":"cli","port":1.5}"#, 422), (#"{"app":"cli","port":"80@evil.example"}"#, 422),
            (#"{"app":"cli","port":80,"host":"localhost"}"#, 422), (#"{"app":"shop","identity":"other"}"#, 422),
            (#"{"app":"shop","for":"other"}"#, 422), (#"{"app":"shop","persistent":1}"#, 422),
            (#"{"app":"shop","parameters":{"state":"x"}}"#, 422),
            (#"{"app":"shop","parameters":{"login_hint":""}}"#, 422),
            (#"{"app":"shop","parameters":[]}"#, 422),
        ])
    func invalid(body: String, status: Int) async throws {
        let response = await client.post(.app, body)
        expect(response.problem?.status, equals: status)
        expect(response.values(of: "Set-Cookie").isEmpty && client.cookies.isEmpty)
        expect(!response.everything.contains("evil"))
        await expect(client.post(.app, #"{"app":"shop"}"#, contentType: "text/plain").status, equals: 422)
    }

    @Test(
        "Identity rule 36: parameters of the app reach the provider; from a link of another site no account and no silence",
        arguments: [("none", ""), ("same-origin", "&foreign=1"), ("cross-site", ""), ("same-site", "")])
    func parameters(site: String, mark: String) async throws {
        let navigation = FetchMetadata(isGET: true, mode: "navigate", destination: "document", site: site)
        let isOwn = site == "none"
        for (prompt, isPassed) in [("none", isOwn), ("login", true)] {
            let query = try await begin(
                client, #""app":"shop","parameters":{"login_hint":"jo@a.b","prompt":"\#(prompt)"}"#)
            let rest = "&login_hint=eve&returnTo=%2Fhome" + mark
            await expect(browser.login(query + rest, metadata: navigation).status, equals: 303)
            let passed: [IdentityConfiguration.Parameter] =
                (isOwn ? [.init("login_hint", "jo@a.b")] : []) + (isPassed ? [.init("prompt", prompt)] : [])
            expect(gateway.provider.passed.last, equals: passed)
        }
    }

    @Test("Identity rule 37: linkWithForgedTokenBeginsNothing: each value is valid for its purpose, site and time only")
    func values() async throws {
        let query = try await begin(client)
        await expect(browser.login(query).status, equals: 303)
        let cookie = try require(browser.loginCookies.first)
        let value = String(decoding: cookie.value, as: UTF8.self)
        let code = try code(of: await browser.callback(try browser.returned()))
        let token = String(query.dropFirst("app=".count))
        func changed(_ text: String) -> String { (text.hasPrefix("A") ? "B" : "A") + text.dropFirst() }
        let begun = gateway.provider.secrets.count
        let admin = LoginBrowser(try Self.gateway(site: "admin"))
        let (now, later) = (LoginFixture.now, LoginFixture.now + .seconds(601))
        for (at, text, time) in [
            (browser, changed(token), now), (browser, value, now), (browser, code, now), (browser, "", now),
            (browser, token + "AAAA", now), (admin, token, now), (browser, token, later),
        ] {
            let page = await at.login("app=\(text)", at: time)
            expect(page.problem?.code == .loginExpired && page.html != nil)
            expect(page.loginFailure, equals: "start: app_token_invalid")
            expect(empty: page.values(of: "Set-Cookie"))
        }
        expect(gateway.provider.secrets.count, equals: begun)
        for text in [token, value, changed(code)] {
            let response = await exchange(text, client)
            expect(response.problem?.code, equals: .loginExpired)
            expect(response.loginFailure, equals: "callback: app_code_invalid")
        }
        // As a login cookie it is none either.
        browser.set(ReceivedCookie(name: cookie.name, value: Array(token.utf8)))
        await expect(browser.callback(try browser.returned()).problem?.code, equals: .loginExpired)
        expect(empty: gateway.provider.redemptions)
    }

    @Test("Identity rule 37: an app that a reload has removed gets no session and no redirect")
    func removed() async throws {
        let next = try Self.gateway(apps: [], store: gateway.store)
        let code = try await code(client)
        let reloaded = LoginBrowser(next, cookies: client.cookies)
        await expect(exchange(code, reloaded).problem?.code, equals: .loginExpired)
        let query = try await begin(client)
        await expect(LoginBrowser(next).login(query).problem?.code, equals: .loginExpired)
        _ = await browser.login(query)
        let page = await LoginBrowser(next, cookies: browser.cookies).callback(try browser.returned())
        expect(page.problem?.code == .loginExpired && page.location == nil)
        expect(empty: next.provider.redemptions)
    }

    @Test("Identity rule 38: the app gets a code of the gateway for an error of the provider, and none of its texts")
    func providerError() async throws {
        for (app, isLink) in [("shop", true), ("web", false)] {
            _ = await browser.login(try await begin(client, #""app":"\#(app)""#))
            let response = await browser.callback(
                try browser.returned("error=access_denied&error_description=%3Cb%3Ecanary"))
            expect(response.status, equals: (isLink ? 200 : 303))
            expect((response.location ?? response.html ?? "").contains("/in?error=login_refused"))
            expect(!response.everything.contains("canary"))
            expect(empty: browser.loginCookies)
        }
        expect(client.ticket, equals: nil)
    }

    @Test("Identity rule 24: a step-up of an app is one of the user of its session", arguments: ["jo", "al"])
    func stepUp(subject: String) async throws {
        await expect(exchange(try await code(client), client).status, equals: 200)
        let earlier = client.ticket
        gateway.provider.state {
            $0.acr = "mfa"
            $0.authenticatedAt = LoginFixture.now
            $0.subject = subject
        }
        let response = await exchange(try await code(client, #""app":"shop","for":"invoice""#), client)
        expect(gateway.provider.stepUps.last, equals: .init(acr: ["mfa"], maxAge: .seconds(600)))
        let isSame = subject == "jo"
        expect(response.status, equals: (isSame ? 200 : 403))
        expect(response.problem?.code, equals: (isSame ? nil : .stepUpFailed))
        expect(client.ticket == earlier, equals: !isSame)
        await expect(gateway.whoAmI(client.ticket).status, equals: 200)
        expect(gateway.store.count, equals: 1)
    }

    @Test("Rule 31: names that a client selects cost linear time, also texts that are slow to normalize")
    func linear() throws {
        let logins = try require(gateway.endpoints.logins)
        let reads: [(String) -> Void] = [
            { _ = logins.requirement(ofRoute: $0) }, { _ = logins.app(named: $0) },
            { _ = logins.provider($0, among: logins.providers, of: nil) }, { _ = logins.provider(named: $0) },
        ]
        for read in reads {
            let ratio = LinearTime.ratio(ofMarks: read)
            #expect(ratio < 4, "\(ratio)")
        }
    }

    @Test("The values of the longest names have room for a provider's code")
    func sizes() async throws {
        let name = String(repeating: "n", count: 64)
        let cookies = LoginFixture.cookies()
        let hash = [UInt8](repeating: 1, count: 32)
        var login = PendingLogin(
            identity: name, issuerHash: hash, stateHash: hash, nonce: hash, verifier: hash,
            returnTarget: String(repeating: "c", count: CallbackQuery.maxCode), startedAt: LoginFixture.now,
            route: name, replaces: SessionKey(bytes: hash), subjectHash: hash, isPersistent: true,
            app: PendingLogin.App(name: name, verifierHash: hash, port: 65_535))
        let code = try require(cookies.seal(login, as: .code, now: LoginFixture.now))
        // Sealing adds 24 bytes more than here.
        #expect(code.utf8.count + 32 <= AppLoginValue.code.maxLength)
        expect(cookies.open(code, as: .code, now: LoginFixture.now), equals: login)
        login.returnTarget = ""
        expect(cookies.setCookieValue(login) != nil)
        expect(login.bytes.indices.allSatisfy { PendingLogin(bytes: Array(login.bytes.prefix($0))) == nil })
    }
}
