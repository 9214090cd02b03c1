import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomIdentity

@Suite("A callback that creates no session")
struct FailedCallbackTests {
    private let browser: LoginBrowser
    private var gateway: LoginEndpoints { browser.gateway }

    init() throws { browser = LoginBrowser(try LoginEndpoints()) }

    @Test(
        "Identity rule 10: errors of the provider have a page each, which contains nothing of the provider",
        arguments: [
            ("access_denied", 403, "access_denied"), ("login_required", 403, "login_required"),
            ("temporarily_unavailable", 503, "temporarily_unavailable"), ("server_error", 503, "server_error"),
            ("invalid_scope", 502, "invalid_scope"), ("canary-error", 502, "provider_error"),
            ("unmet_authentication_requirements", 403, "unmet_authentication_requirements"),
        ])
    func providerErrors(code: String, status: Int, reason: String) async throws {
        _ = await browser.login()
        let response = await browser.callback(
            try browser.returned(
                "error=\(code)&error_description=canary-%3Cscript%3E&error_uri=https%3A%2F%2Fcanary.example"))
        expect(response.status, equals: status)
        expect(response.html?.contains("href=\"/home\""), equals: true)
        expect(!response.everything.contains("canary"))
        expect(gateway.lastLogin?.reason, equals: reason)
        expect(response.loginFailure, equals: "callback: \(reason)")
        // A browser states no outage of the provider: any client can send such a callback.
        if code == "temporarily_unavailable" { expect(gateway.lastLogin?.outcome, equals: .denied) }
        expect(!"\(gateway.observer.all)".contains("canary"))
        expect(empty: browser.cookies)
        expect(empty: gateway.provider.redemptions)
    }

    @Test(
        "Identity rule 10: forged callbacks count against the address; errors that the provider states do not",
        arguments: [
            ("error=access_denied", false), ("error=temporarily_unavailable", false), ("error=invalid_scope", false),
            ("code=a&iss=https%3A%2F%2Fevil.example", true),
        ])
    func counted(callback: String, counts: Bool) async throws {
        var isThrottled = false
        for _ in 0..<40 where !isThrottled {
            let browser = LoginBrowser(gateway)
            isThrottled = await browser.login().status == 429
            guard !isThrottled else { break }
            isThrottled = await browser.callback(try browser.returned(callback)).status == 429
        }
        expect(isThrottled, equals: counts)
        expect(empty: gateway.provider.redemptions)
    }

    @Test(
        "Identity rule 10: failures of the code exchange have a status each, and remove the cookie",
        arguments: [
            (TokenClientError.Kind.unreachable, 503, "code_unavailable"),
            (.denied("invalid_grant"), 502, "invalid_grant"),
            (.denied("canary-text"), 502, "provider_error"), (.failed(.token(.wrongNonce)), 502, "wrong_nonce"),
            (.failed(.claimsTooLarge), 502, "claims_too_large"),
            (.misconfigured(.invalidClient), 502, "invalid_client"),
        ])
    func redemptionFails(kind: TokenClientError.Kind, status: Int, reason: String) async throws {
        gateway.provider.failRedeem(TokenClientError(kind, in: .code))
        let response = try await browser.signIn()
        expect(response.status, equals: status)
        expect(response.loginFailure, equals: "code: \(reason)")
        expect(!response.everything.contains("canary"))
        expect(gateway.lastLogin?.reason, equals: reason)
        expect(empty: browser.cookies)
        expect(gateway.store.count, equals: 0)
    }

    @Test(
        "A session that the provider ends before the browser is back is not created: the browser would return at once",
        arguments: [(-1, 502, "session_too_short"), (9, 502, "session_too_short"), (60, 303, nil)]
            as [(Int, Int, String?)])
    func sessionIsTooShort(seconds: Int, status: Int, reason: String?) async throws {
        gateway.provider.end(by: LoginFixture.now + .seconds(seconds))
        try await expect(browser.signIn().status, equals: status)
        expect(gateway.lastLogin?.reason, equals: reason)
        expect(gateway.store.count, equals: (status == 502 ? 0 : 1))
    }

    @Test(
        "Without a refresh token, a token of a few seconds is a page for the operator: the browser would return at once",
        arguments: [(1, false, 502), (9, false, 502), (60, false, 303), (1, true, 303)])
    func tokenIsTooShort(seconds: Int, hasRefreshToken: Bool, status: Int) async throws {
        gateway.provider.issue(for: .seconds(seconds), hasRefreshToken: hasRefreshToken)
        let response = try await browser.signIn()
        expect(response.status == status && (response.location == nil) == (status == 502))
        expect(gateway.lastLogin?.reason, equals: (status == 502 ? "token_too_short" : nil))
        expect(gateway.store.count, equals: (status == 502 ? 0 : 1))
        expect(empty: browser.loginCookies)
        guard status == 502 else { return }
        expect(response.loginFailure, equals: "callback: token_too_short")
        expect(response.html?.contains("until the operator corrects the configuration"), equals: true)
    }

    @Test(
        "Identity rule 22: a user with a claim that no claim header can contain cannot sign in; the log names the claim"
    )
    func unrepresentableClaim() async throws {
        gateway.provider.state { $0.claims = Array(#"{"groups":{"staff":true}}"#.utf8) }
        try await expect(browser.signIn().status, equals: 502)
        expect(gateway.lastLogin?.reason, equals: "unsupported_claim:groups")
        expect(gateway.store.count, equals: 0)
    }

    @Test("Identity rule 10: all but navigations get a problem document; the configured sentence is used in both")
    func problemDocuments() async throws {
        let gateway = try LoginEndpoints(messages: [.loginExpired: "Bitte noch einmal."])
        let browser = LoginBrowser(gateway)
        let query = "state=\(Base64URL.encode(LoginFixture.secrets(1).state))&code=a"
        await expect(browser.callback(query).html?.contains("<h1>Bitte noch einmal.</h1>"), equals: true)
        let fetched = FetchMetadata(isGET: true, mode: "cors", destination: "empty")
        let problem = try await require(browser.callback(query, metadata: fetched).problem)
        expect(problem, equals: Problem(.loginExpired, detail: "Bitte noch einmal."))
    }

    @Test(
        "Identity rule 27: without the store no code is spent; the login can be completed afterwards",
        arguments: [ScriptedStore.Operation.throttle, .mark])
    func storeDownSpendsNoCode(operation: ScriptedStore.Operation) async throws {
        let query = try await browser.begin()
        gateway.store.fail(operation, .unavailable)
        let response = await browser.callback(query)
        expect(response.status, equals: 503)
        expect(response.values(of: "Retry-After"), equals: ["5"])
        expect(response.html?.contains("Sessions are not available"), equals: true)
        expect(empty: gateway.provider.redemptions)
        expect(browser.loginCookies.count, equals: 1)
        gateway.store.recover(operation)
        await expect(browser.callback(query).status, equals: 303)
        expect(gateway.provider.redemptions.count, equals: 1)
    }

    @Test("Before the metadata of the provider are known no code is spent; the login can be completed afterwards")
    func notReady() async throws {
        let query = try await browser.begin()
        gateway.provider.becomeReady(false)
        let response = await browser.callback(query)
        expect(response.status, equals: 503)
        expect(response.values(of: "Retry-After"), equals: ["5"])
        expect(gateway.lastLogin?.reason, equals: "provider_not_ready")
        expect(empty: gateway.provider.redemptions)
        expect(browser.loginCookies.count, equals: 1)
        // A browser without the login does not wait for the provider.
        let other = LoginBrowser(gateway)
        await expect(other.callback(query).status, equals: 400)
        gateway.provider.becomeReady(true)
        await expect(browser.callback(query).status, equals: 303)
        expect(gateway.provider.redemptions.count, equals: 1)
    }

    @Test(
        "Identity rule 27: if the store fails later, no session remains, the earlier one continues, and the cookie is removed",
        arguments: [SessionStoreError.Kind.unavailable, .full])
    func storeFailsLate(kind: SessionStoreError.Kind) async throws {
        _ = try await browser.signIn()
        let earlier = browser.ticket
        gateway.store.fail(.create, kind)
        try await expect(browser.signIn().status, equals: 503)
        gateway.store.recover(.create)
        expect(browser.ticket == earlier && browser.loginCookies.isEmpty)
        await expect(gateway.whoAmI(earlier).status, equals: 200)
        expect(gateway.store.count, equals: 1)
        expect(gateway.lastLogin?.outcome, equals: .storeError)
        // With the new tokens the provider would end its own session, to which the earlier one belongs.
        await gateway.endpoints.revocations.finish(within: .seconds(10))
        expect(!gateway.journal.all.contains { $0.hasPrefix("revoke") })
    }

    @Test("Identity rule 27: if the marks cannot be read after the session was created, it ends")
    func marksUnreadable() async throws {
        let store = gateway.store
        gateway.provider.onRedeem { store.fail(.mark, .unavailable) }
        try await expect(browser.signIn().status, equals: 503)
        expect(empty: browser.cookies)
        expect(gateway.store.count, equals: 0)
    }

    @Test("Identity rule 10: failures are counted by address, with those of passwords; then no code is spent")
    func throttled() async throws {
        gateway.provider.failRedeem(TokenClientError(.denied("invalid_grant"), in: .code))
        for _ in 0..<29 { try await expect(browser.signIn().status, equals: 502) }
        // Two logins are in progress when the limit is reached.
        let last = try await browser.begin()
        try await expect(browser.signIn().status, equals: 502)
        gateway.provider.failRedeem(nil)
        let response = await browser.callback(last)
        expect(response.status, equals: 429)
        expect(response.values(of: "Retry-After"), equals: ["600"])
        expect(gateway.provider.redemptions.count, equals: 30)
        expect(gateway.lastLogin?.outcome, equals: .throttled)
        expect(browser.loginCookies.count, equals: 1)
        await expect(browser.login().status, equals: 429)
        let other = LoginBrowser(gateway, peer: "192.0.2.2")
        try await expect(other.signIn().status, equals: 303)
        await expect(browser.callback(last, at: LoginFixture.now + .seconds(600)).status, equals: 303)
    }

    @Test("Identity rule 10: failures with passwords count for logins too, and the reverse")
    func sharedCount() async throws {
        gateway.provider.failRedeem(TokenClientError(.denied("invalid_grant"), in: .code))
        func enter(_ name: Int) async -> Int {
            let body = Secret(#"{"email":"jo\#(name)@example.com","password":"canary-password"}"#)
            return await gateway.endpoints.respond(
                AccountRequest(
                    endpoint: .signIn, contentType: "application/json", body: body, now: LoginFixture.now.sessionTime,
                    origin: AuditContext(peer: browser.peer))
            ).problem?.status ?? 0
        }
        for name in 0..<15 { await expect(enter(name), equals: 401) }
        for _ in 0..<15 { try await expect(browser.signIn().status, equals: 502) }
        await expect(enter(15), equals: 429)
        await expect(browser.login().status, equals: 429)
    }

    @Test(
        "Faults of the provider and callbacks without a login do not count as failures, and a success counts once",
        arguments: [
            (TokenClientError.Kind.unreachable, 503), (.failed(.token(.wrongNonce)), 502),
            (.misconfigured(.invalidClient), 502),
        ])
    func notCounted(kind: TokenClientError.Kind, status: Int) async throws {
        gateway.provider.failRedeem(TokenClientError(kind, in: .code))
        for _ in 0..<40 { try await expect(browser.signIn().status, equals: status) }
        gateway.provider.failRedeem(nil)
        for _ in 0..<40 {
            _ = await browser.callback("state=\(Base64URL.encode(LoginFixture.secrets(1).state))&code=a")
        }
        for _ in 0..<40 { try await expect(browser.signIn().status, equals: 303) }
    }

    @Test(
        "Identity rule 10: errors that are repeated with one login cookie are limited with all attempts of the address",
        arguments: ["error=access_denied", "error=server_error", "error=canary-error"])
    func repeatedErrors(callback: String) async throws {
        let query = try await browser.begin(callback)
        let cookies = browser.cookies
        // The browser keeps the cookie that it was asked to remove.
        func replay() async -> AccountResponse {
            await LoginBrowser(gateway, cookies: cookies).callback(query)
        }
        for _ in 0..<100 { await expect(replay().status != 429) }
        let states = gateway.store.throttleStates
        let response = await replay()
        expect(response.status == 429 && response.values(of: "Retry-After") == ["600"])
        // It was rejected without a write, and it counts for its address only.
        expect(gateway.store.throttleStates, equals: states)
        expect(empty: gateway.provider.redemptions)
        try await expect(LoginBrowser(gateway, peer: "192.0.2.2").signIn().status, equals: 303)
        let later = LoginFixture.now + .seconds(600)
        await expect(LoginBrowser(gateway).login(at: later).status, equals: 303)
    }

    @Test("All logins of an address are limited together, successful ones too")
    func attempts() async throws {
        for _ in 0..<100 { try await expect(browser.signIn().status, equals: 303) }
        await expect(browser.login().status, equals: 429)
    }
}
