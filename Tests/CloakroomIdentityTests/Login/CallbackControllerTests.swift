import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomIdentity

@Suite("GET of callback below the accounts prefix")
struct CallbackControllerTests {
    private let browser: LoginBrowser
    private var gateway: LoginEndpoints { browser.gateway }

    init() throws { browser = LoginBrowser(try LoginEndpoints()) }

    private static let tokens = ["canary-code", "canary-access", "canary-refresh", "canary-id-token"]

    @Test("creates a session with what the provider stated, removes the login cookie and continues")
    func signsIn() async throws {
        let response = try await browser.signIn("returnTo=%2Fepisodes")
        expect(response.status, equals: 303)
        expect(response.location, equals: "/episodes")
        expect(response.values(of: "Referrer-Policy"), equals: ["no-referrer"])
        expect(browser.cookies.count, equals: 1)
        let user = try await require(gateway.whoAmI(browser.ticket).json)
        expect(user.hasPrefix(#"{"user":{"sub":"jo","groups":["staff"]},"session":{"#))
        let redemption = try require(gateway.provider.redemptions.first)
        let secrets = try require(gateway.provider.secrets.first)
        expect(redemption.code, equals: Secret("canary-code"))
        expect(redemption.login.nonce == secrets.nonce && redemption.login.verifier == secrets.verifier)
        expect(redemption.redirectURI, equals: "https://app.example.com/auth/callback")
        expect(!redemption.needsAuthenticationTime)
        let account = AccountName(issuer: LoginFixture.issuer, subject: "jo")
        expect(
            gateway.observer.all,
            equals: [
                .loginBegan(identity: "company"),
                .login(
                    .success, identity: "company", reason: nil, accountHash: account.hash(under: Upstreams.accountKey),
                    duration: .zero),
            ])
    }

    @Test("Identity rule 9: with a Strict cookie a document continues, because a redirect would not send the cookie")
    func strictSessionSurvivesTheWayBack() async throws {
        let gateway = try LoginEndpoints(sameSite: .strict)
        let browser = LoginBrowser(gateway)
        let response = try await browser.signIn("returnTo=%2Fepisodes%3Fa%3D1%26b%3D2", sendsTicket: false)
        expect(response.status, equals: 200)
        expect(response.location, equals: nil)
        expect(
            response.html?.contains(#"<meta http-equiv="refresh" content="0;url=/episodes?a=1&amp;b=2">"#), equals: true
        )
        expect(response.values(of: "Referrer-Policy"), equals: ["no-referrer"])
        expect(response.values(of: "Set-Cookie").first?.hasSuffix("; SameSite=Strict"), equals: true)
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
    }

    @Test("Identity rule 2: two tabs both sign in, in any order", arguments: [[0, 1], [1, 0]])
    func twoTabsBothSignIn(order: [Int]) async throws {
        _ = await browser.login("returnTo=%2Fepisodes")
        _ = await browser.login("returnTo=%2Finvoice")
        for index in order {
            let response = await browser.callback(try browser.returned(login: index))
            expect(response.location, equals: ["/episodes", "/invoice"][index])
        }
        expect(browser.cookies.count, equals: 1)
        expect(gateway.store.count, equals: 1)
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
    }

    @Test("Identity rule 4: a callback cannot be replayed, not even by a client that keeps the cookie")
    func callbackCannotBeReplayed() async throws {
        let query = try await browser.begin()
        let kept = browser.loginCookies
        await expect(browser.callback(query).status, equals: 303)
        // The reload of the page: the cookie is removed.
        let reloaded = await browser.callback(query)
        expect(reloaded.status, equals: 400)
        expect(empty: reloaded.values(of: "Set-Cookie"))
        expect(gateway.lastLogin?.reason, equals: "no_pending_login")
        let other = LoginBrowser(gateway)
        for cookie in kept { other.set(cookie) }
        let replayed = await other.callback(query)
        expect(replayed.status, equals: 400)
        expect(gateway.lastLogin?.reason, equals: "used")
        expect(other.ticket == nil && other.loginCookies.isEmpty)
        expect(gateway.provider.redemptions.count, equals: 1)
        expect(gateway.store.count, equals: 1)
        // The first session continues.
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
    }

    @Test("Identity rule 4: nor at another replica, also while only one of the two has the newest secret")
    func replicas() async throws {
        let older = AccountHasher(KeyedHash(key0: 5, key1: 6))
        for (first, second) in [(LoginEndpoints.hashes, older), (older, LoginEndpoints.hashes), (older, older)] {
            let gateway = try LoginEndpoints(hashes: first)
            let other = try LoginEndpoints(store: gateway.store, hashes: second)
            let browser = LoginBrowser(gateway)
            let query = try await browser.begin()
            let kept = browser.loginCookies
            await expect(browser.callback(query).status, equals: 303)
            let replay = LoginBrowser(other)
            for cookie in kept { replay.set(cookie) }
            await expect(replay.callback(query).status, equals: 400)
            expect(other.lastLogin?.reason, equals: "used")
            expect(empty: other.provider.redemptions)
            // A logout that one replica receives ends the login that the other one completes.
            gateway.provider.logout(.session(id: "sid-1", subject: nil))
            await expect(gateway.postLogout().status, equals: 200)
            let late = LoginBrowser(other)
            try await expect(late.signIn().status, equals: 403)
        }
    }

    @Test("Identity rule 4: of many callbacks at once with one state, one spends its code")
    func callbacksAtOnce() async throws {
        let query = try await browser.begin()
        let statuses = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<20 {
                let tab = LoginBrowser(gateway, cookies: browser.cookies)
                group.addTask { await tab.callback(query).status }
            }
            return await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
        }
        expect(statuses, equals: [303: 1, 400: 19])
        expect(gateway.provider.redemptions.count, equals: 1)
        expect(gateway.store.count, equals: 1)
    }

    @Test("Identity rule 4: nor as long as its login is valid, if the clock of the first replica was a minute behind")
    func clocksDiffer() async throws {
        let gateway = try LoginEndpoints(login: LoginConfiguration(timeout: .seconds(60)))
        let browser = LoginBrowser(gateway)
        let query = try await browser.begin()
        let kept = browser.loginCookies
        await expect(browser.callback(query, at: LoginFixture.now - .seconds(59)).status, equals: 303)
        for cookie in kept { browser.set(cookie) }
        await expect(browser.callback(query, at: LoginFixture.now + .seconds(60)).status, equals: 400)
        expect(gateway.lastLogin?.reason, equals: "used")
    }

    @Test("Identity rule 4: the callback of another browser is rejected: no user is signed in as an attacker")
    func callbackOfAnotherBrowserIsRefused() async throws {
        let attacker = LoginBrowser(gateway, peer: "203.0.113.1")
        let query = try await attacker.begin()
        let victim = LoginBrowser(gateway)
        for login in [false, true] {
            // With and without a login of its own in progress.
            if login { _ = await victim.login() }
            let response = await victim.callback(query)
            expect(response.status, equals: 400)
            expect(response.html?.contains("This sign-in took too long or was used before. Try again."), equals: true)
            expect(response.html?.contains("open https://app.example.com instead."), equals: true)
            // No new login by itself, which could loop.
            expect(response.location, equals: nil)
            expect(empty: response.values(of: "Set-Cookie"))
        }
        expect(victim.ticket, equals: nil)
        expect(victim.loginCookies.count, equals: 1)
        expect(empty: gateway.provider.redemptions)
        expect(gateway.lastLogin?.outcome, equals: .expired)
    }

    @Test("Identity rule 4: a login that took too long is rejected, and its cookie removed")
    func tooLate() async throws {
        let gateway = try LoginEndpoints(login: LoginConfiguration(timeout: .seconds(60)))
        for (seconds, status) in [(60, 303), (61, 400)] {
            let browser = LoginBrowser(gateway)
            let query = try await browser.begin()
            await expect(
                browser.callback(query, at: LoginFixture.now + .seconds(Int64(seconds))).status, equals: status)
            expect(empty: browser.loginCookies)
        }
        expect(gateway.provider.redemptions.count, equals: 1)
    }

    @Test("A forged cookie of the same name hides no login, and a single one makes none")
    func tossedCookies() async throws {
        _ = await browser.login()
        let own = try require(browser.loginCookies.first)
        let query = Array(try browser.returned().utf8)
        let other = LoginBrowser(gateway)
        _ = await other.login()
        let foreign = ReceivedCookie(name: own.name, value: try require(other.loginCookies.first).value)
        let forged = ReceivedCookie(name: own.name, value: Array(repeating: UInt8(ascii: "A"), count: 60_000))
        func callback(_ cookies: [ReceivedCookie]) async -> AccountResponse {
            await gateway.endpoints.respond(
                AccountRequest(
                    endpoint: .callback, query: query, loginCookies: cookies, fetchMetadata: LoginEndpoints.navigation,
                    now: LoginFixture.now.sessionTime))
        }
        for cookies in [[], [foreign], [forged], [foreign, forged], Array(repeating: forged, count: 64)] {
            let response = await callback(cookies)
            expect(response.status, equals: 400)
            expect(response.values(of: "Set-Cookie").count, equals: (cookies.isEmpty ? 0 : 1))
        }
        expect(empty: gateway.provider.redemptions)
        await expect(callback([foreign, forged, own, own]).status, equals: 303)
    }

    @Test("Identity rule 5: a mix-up of two providers is rejected before the code reaches either of them")
    func mixUpIsRefused() async throws {
        let gateway = try LoginEndpoints(hasPartner: true)
        gateway.provider.announceIssuer()
        let own = "iss=https%3A%2F%2Fid.example.com"
        let cases: [(query: String, path: String, reason: String)] = [
            ("code=canary-code&\(own)", "partner", "other_identity"),
            ("code=canary-code&iss=https%3A%2F%2Fid.partner.example", "company", "issuer_mismatch"),
            ("code=canary-code&iss=https%3A%2F%2Fid.partner.example", "partner", "other_identity"),
            ("code=canary-code&iss=https%3A%2F%2Fid.example.com%2F", "company", "issuer_mismatch"),
            ("code=canary-code", "company", "issuer_missing"),
            ("error=access_denied", "company", "issuer_missing:access_denied"),
            ("error=canary-code", "company", "issuer_missing"),
            ("error=access_denied&iss=https%3A%2F%2Fevil.example", "company", "issuer_mismatch"),
        ]
        for (query, path, reason) in cases {
            let browser = LoginBrowser(gateway)
            let response = await browser.callback(try await browser.begin(query), name: path)
            expect(response.status, equals: 502)
            expect(gateway.lastLogin?.reason, equals: reason)
            expect(browser.ticket == nil && browser.loginCookies.isEmpty)
        }
        expect(gateway.provider.redemptions.isEmpty && gateway.partner.redemptions.isEmpty)
        let browser = LoginBrowser(gateway)
        await expect(browser.callback(try await browser.begin("code=a&\(own)"), name: "company").status, equals: 303)
        expect(gateway.provider.redemptions.last?.redirectURI, equals: "https://app.example.com/auth/callback/company")
    }

    @Test(
        "Each provider has a path of its own, and a single one has the path without a name",
        arguments: [(true, nil), (true, "other"), (true, ""), (false, "company"), (false, "other")]
            as [(Bool, String?)])
    func paths(hasPartner: Bool, name: String?) async throws {
        let gateway = try LoginEndpoints(hasPartner: hasPartner)
        let browser = LoginBrowser(gateway)
        await expect(browser.callback(try await browser.begin(), name: name).status, equals: 404)
        await expect(gateway.postLogout(name: name).problem?.status, equals: 404)
        expect(gateway.provider.redemptions.isEmpty && gateway.provider.tokens.isEmpty)
    }

    @Test("Identity rule 4: a malformed query is 400, and no cookie is removed for it")
    func malformed() async throws {
        let good = try await browser.begin()
        let long = String(repeating: "x", count: 4_096)
        for query in [
            "", "code=a", good + "&code=b", good + "&error=a", good + "&x=%", good + "&x=\(long)", "state=a&code=b",
        ] {
            let response = await browser.callback(query)
            expect(response.status, equals: 400)
            expect(empty: response.values(of: "Set-Cookie"))
            expect(gateway.lastLogin?.outcome, equals: .invalid)
        }
        await expect(browser.callback(good).status, equals: 303)
    }

    @Test(
        "The session that was presented with the login, or with the callback, is replaced by one with a new ticket",
        arguments: [true, false])
    func replaces(sendsTicket: Bool) async throws {
        _ = try await browser.signIn()
        let first = try require(browser.ticket)
        _ = try await browser.signIn(sendsTicket: sendsTicket)
        expect(browser.ticket != nil && browser.ticket != first)
        await expect(gateway.whoAmI(first).problem?.reason, equals: .revoked)
        await expect(gateway.whoAmI(browser.ticket).status, equals: 200)
        expect(gateway.store.count, equals: 1)
        // Providers end their own session with its refresh token, and the new session here belongs to it.
        await gateway.endpoints.revocations.finish(within: .seconds(10))
        expect(!gateway.journal.all.contains { $0.hasPrefix("revoke") })
    }

    @Test("The tokens of a replaced session of another user are revoked", arguments: [true, false])
    func replacesOtherUser(sendsTicket: Bool) async throws {
        _ = try await browser.signIn()
        gateway.provider.state { $0.subject = "al" }
        _ = try await browser.signIn(sendsTicket: sendsTicket)
        await until { gateway.journal.all.contains("revoke canary-refresh-1") }
        expect(!gateway.journal.all.contains("revoke canary-refresh-2"))
    }

    @Test("A planted ticket is not kept, and a failed login ends no session")
    func fixation() async throws {
        let attacker = LoginBrowser(gateway)
        _ = try await attacker.signIn()
        let planted = try require(attacker.ticket)
        let victim = LoginBrowser(gateway, cookies: attacker.cookies)
        gateway.provider.failRedeem(TokenClientError(.denied("invalid_grant"), in: .code))
        try await expect(victim.signIn().status, equals: 502)
        expect(victim.ticket, equals: planted)
        await expect(gateway.whoAmI(planted).status, equals: 200)
        gateway.provider.failRedeem(nil)
        gateway.provider.state { $0.subject = "victim" }
        try await expect(victim.signIn().status, equals: 303)
        expect(victim.ticket != planted)
        await expect(gateway.whoAmI(planted).status, equals: 401)
    }

    @Test(
        "refresh_expires_in and persistence: the session ends with that of the provider, and the cookie with the session"
    )
    func persistent() async throws {
        let gateway = try LoginEndpoints(persistence: .onRequest)
        gateway.provider.end(by: LoginFixture.now + .seconds(3_600))
        let browser = LoginBrowser(gateway)
        let response = try await browser.signIn("persistent=1")
        let line = try require(response.values(of: "Set-Cookie").first)
        // The time since the request is subtracted.
        let seconds = line.split(separator: "; Max-Age=").last.flatMap { Int($0) }
        expect((3_540...3_600).contains(seconds ?? 0))
        let brief = try await browser.signIn()
        expect(brief.values(of: "Set-Cookie").first?.contains("Max-Age"), equals: false)
    }

    @Test("Any query and any cookies: without the state and the cookie of a login no code is spent")
    func fuzzed() async throws {
        let gateway = try LoginEndpoints(isThrottled: false)
        var generator = CountingGenerator(state: 17)
        let browser = LoginBrowser(gateway)
        _ = await browser.login()
        let state = Base64URL.encode(try require(gateway.provider.secrets.first).state)
        let cookie = try require(browser.loginCookies.first)
        let pieces = [
            "state=", "code=a", "error=b", "iss=https%3A%2F%2Fid.example.com", "&", "=", "%", "%00", "+", state, "x",
            "AAAA",
        ]
        for _ in 0..<3_000 {
            // The cookie or the state is missing, or was changed.
            let hasCookie = Bool.random(using: &generator)
            var value = cookie.value
            let index = Int.random(in: 0..<value.count, using: &generator)
            if hasCookie { value[index] = value[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A") }
            var query = (0..<Int.random(in: 0...6, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
            if Bool.random(using: &generator) { query = "state=\(state)&code=a&" + query }
            let response = await gateway.endpoints.respond(
                AccountRequest(
                    endpoint: .callback, query: Array(query.utf8),
                    loginCookies: hasCookie ? [ReceivedCookie(name: cookie.name, value: value)] : [],
                    fetchMetadata: LoginEndpoints.navigation, now: LoginFixture.now.sessionTime))
            expect(response.status, equals: 400)
            expect(response.location, equals: nil)
        }
        expect(empty: gateway.provider.redemptions)
    }

    @Test("Identity rule 9: no secret of the login appears in a response or an event")
    func secretsStayHere() async throws {
        var responses = [await browser.login()]
        let cookies = browser.loginCookies.map { String(decoding: $0.value, as: UTF8.self) }
        responses.append(await browser.callback(try browser.returned()))
        responses.append(await browser.callback(try browser.returned()))
        let secrets = try require(gateway.provider.secrets.first)
        let texts = Self.tokens + cookies + [Base64URL.encode(secrets.nonce), Base64URL.encode(secrets.verifier)]
        for text in texts {
            expect(!responses.dropFirst().contains { $0.everything.contains(text) })
            expect(!"\(gateway.observer.all)".contains(text))
        }
        expect(!"\(gateway.observer.all)".contains(Base64URL.encode(secrets.state)))
    }
}
