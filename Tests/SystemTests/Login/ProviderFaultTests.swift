import Foundation
import MockAPI
import TestSupport
import Testing

/// A provider that fails after users have signed in: no session ends because of it, and no other route waits for it.
@Suite("Providers that fail", .serialized, .timeLimit(.minutes(5)))
struct ProviderFaultTests {
    private func running(
        _ settings: MockProviderSettings = MockProviderSettings(),
        change: (inout ProviderGateway.Settings) -> Void = { _ in },
        body: (ProviderGateway, RunningMockProvider) async throws -> Void
    ) async throws {
        try await MockProvider.withServer(settings) { provider in
            var settings = ProviderGateway.Settings(issuer: provider.issuer)
            settings.overrides = ["accounts.throttle=false", "timeouts.identity=1s"]
            change(&settings)
            let port = try await SessionStoreFixture.freePort()
            try await ProviderGateway.running(settings, port: port) { site in try await body(site, provider) }
        }
    }

    private func signedIn(_ site: ProviderGateway) async throws -> FormBrowser {
        let browser = FormBrowser()
        _ = try await browser.visit(try await site.beginLogin(browser).url)
        #expect(try await site.session(browser).status == 200)
        return browser
    }

    /// The response of a route whose upstream rejects the access token once.
    private func refreshing(_ site: ProviderGateway, _ browser: FormBrowser) async throws -> TestResponse {
        site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
        return try await site.bytes(browser)
    }

    @Test(
        "a provider that is frozen, slow, failing or closed signs no user out",
        arguments: [
            EndpointFault.frozen(), .slow(seconds: 5), .closed(), .response(500), .response(503), .response(429),
            .response(200, "<html>"), .response(200, #"{"keys":[]}"#), .error("temporarily_unavailable", status: 503),
        ])
    func faults(_ fault: EndpointFault) async throws {
        try await running { site, provider in
            let browser = try await signedIn(site)
            provider.script { $0.faults[.all] = [fault] }
            let rejected = try await refreshing(site, browser)
            #expect([502, 503, 504].contains(rejected.status), "\(rejected.status) \(rejected.body)")
            #expect(try await site.session(browser).status == 200)
            // Routes that do not need the provider do not wait for it.
            let time = try await ContinuousClock().measure { () async throws in
                #expect(try await site.bytes(browser).status == 200)
                #expect(try await browser.send("GET", site.base + "/episodes").status == 200)
            }
            #expect(time < .seconds(1))
            provider.script { $0.faults = [:] }
            try await eventually("the tokens are refreshed") {
                try await refreshing(site, browser).status == 200
            }
            #expect(provider.observations.snapshot().reuseDetections == 0)
        }
    }

    @Test("a provider that was killed continues with its sessions when it is back")
    func killed() async throws {
        var settings = MockProviderSettings()
        settings.port = try await SessionStoreFixture.freePort()
        let provider = try MockProvider(settings: settings)
        var configuration = ProviderGateway.Settings(issuer: "http://127.0.0.1:\(settings.port)")
        configuration.overrides = ["timeouts.identity=1s"]
        let port = try await SessionStoreFixture.freePort()
        try await ProviderGateway.running(configuration, port: port) { site in
            // A provider that is away stops no start.
            #expect(try await FormBrowser().send("GET", site.base + "/episodes").status == 200)
            let browser = try await provider.whileServing { _ in try await signedIn(site) }
            #expect([502, 503].contains(try await refreshing(site, browser).status))
            #expect(try await site.session(browser).status == 200)
            #expect(
                try await FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation).status == 503)
            try await provider.whileServing { _ in
                try await eventually("the tokens are refreshed") {
                    try await refreshing(site, browser).status == 200
                }
                _ = try await signedIn(site)
            }
        }
    }

    @Test(
        "only invalid_grant ends the session",
        arguments: [
            ("invalid_grant", 400, 401), ("invalid_client", 401, 502), ("unauthorized_client", 400, 502),
            ("invalid_request", 400, 502), ("server_error", 500, 502),
        ])
    func errorCodes(code: String, status: Int, expected: Int) async throws {
        try await running { site, provider in
            let browser = try await signedIn(site)
            provider.script { $0.faults[.refresh] = [.error(code, status: status)] }
            let response = try await refreshing(site, browser)
            #expect(response.status == expected, "\(response.body)")
            #expect(!response.textWithoutTicket.contains("description of the provider"))
            #expect(try await site.session(browser).status == (expected == 401 ? 401 : 200))
        }
    }

    @Test(
        "subMayNotChange: a refresh that names another user, provider or sign-in is discarded",
        arguments: [
            TokenForgery(claims: MemberEdit(set: ["sub": #""mia""#])),
            TokenForgery(claims: MemberEdit(set: ["iss": #""https://other.example""#])),
            TokenForgery(claims: MemberEdit(set: ["aud": #""other""#])),
            TokenForgery(claims: MemberEdit(set: ["nonce": #""other""#])),
            TokenForgery(claims: MemberEdit(set: ["at_hash": #""AAAAAAAAAAAAAAAAAAAAAA""#])),
            TokenForgery(times: ["auth_time": -900]), TokenForgery(times: ["exp": -900]),
            TokenForgery(signature: .none),
            TokenForgery(signature: .otherKey), TokenForgery(signature: .publicKeyAsSecret),
        ])
    func refreshes(_ forgery: TokenForgery) async throws {
        try await running { site, provider in
            let browser = try await signedIn(site)
            let before = site.received("Authorization")
            provider.script {
                $0.idToken = forgery
                $0.claims["email"] = #""mia@example.com""#
            }
            let response = try await refreshing(site, browser)
            #expect(response.status == 502, "\(response.body)")
            // No token of the discarded response reached the upstream, and the user is the same.
            let after = site.received("Authorization")
            #expect(Set(after.dropFirst(before.count)).count == 1)
            #expect(try await site.user(browser).email == "jo@example.com")
        }
    }

    @Test("claims follow a refresh")
    func claims() async throws {
        try await running { site, provider in
            let browser = try await signedIn(site)
            provider.script { $0.claims["groups"] = #"["admins"]"# }
            #expect(try await refreshing(site, browser).status == 200)
            #expect(try await site.user(browser).groups == ["admins"])
            #expect(site.received("X-User-Groups").last == "admins")
        }
    }

    @Test("keys that rotate all the time sign no user out")
    func rotation() async throws {
        try await running { site, provider in
            var browsers: [FormBrowser] = []
            for _ in 0..<4 { browsers.append(try await signedIn(site)) }
            // An unknown key is a reason to fetch the keys once in 30 s, so most of these ID tokens cannot be verified.
            for browser in browsers {
                try provider.rotateKeys(keepsOld: true)
                #expect(try await refreshing(site, browser).status == 200)
            }
            for browser in browsers { #expect(try await site.session(browser).status == 200) }
            // With the refresh tokens of these responses.
            for browser in browsers {
                try await eventually("the tokens are refreshed again") {
                    try await refreshing(site, browser).status == 200
                }
            }
            #expect(provider.observations.snapshot().reuseDetections == 0)
        }
    }

    @Test("oneExchangeForAThousandRequests: requests that need a token for an audience wait for one exchange")
    func exchanges() async throws {
        try await running {
            $0.identity = ["exchange: { billing: { audience: https://billing.example.com } }"]
        } body: { site, provider in
            let browser = try await signedIn(site)
            provider.script { $0.faults[.exchange] = [.slow(seconds: 0.2, count: 1)] }
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        try await browser.send("POST", site.base + "/__mock/echo", body: "x").status
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.allSatisfy { $0 == 200 })
            let exchanges = provider.tokenRequests.filter { $0.parameters["subject_token"] != nil }
            #expect(exchanges.count == 1)
            #expect(exchanges.first?.parameters["audience"] == "https://billing.example.com")
            #expect(Set(site.received("Authorization", path: "/__mock/echo")).count == 1)
        }
    }
}
