import Foundation
import Glibc
import TestSupport
import Testing

@testable import MockAPI

/// A provider that fails after users have signed in: no session ends because of it, and no other route waits for it.
@Suite("Providers that fail", .serialized, .timeLimit(.minutes(5)))
struct ProviderFaultTests {
    /// The response of a route whose upstream rejects the access token once.
    private func refreshing(_ site: ProviderGateway, _ browser: FormBrowser) async throws -> TestResponse {
        site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
        return try await site.bytes(browser)
    }

    @Test(
        "a provider that is frozen, slow, failing or closed signs no user out",
        arguments: [
            EndpointFault.frozen(), .slow(seconds: 12), .closed(), .response(500), .response(503), .response(429),
            .response(200, "<html>"), .response(200, #"{"keys":[]}"#), .error("temporarily_unavailable", status: 503),
        ])
    func faults(_ fault: EndpointFault) async throws {
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
            provider.script { $0.faults[.all] = [fault] }
            let rejected = try await refreshing(site, browser)
            #expect([502, 503, 504].contains(rejected.status), "\(rejected.status) \(rejected.body)")
            #expect(try await site.session(browser).status == 200)
            // Routes that do not need the provider do not wait for it.
            let time = try await ContinuousClock().measure { () async throws in
                #expect(try await site.bytes(browser).status == 200)
                #expect(try await browser.send("GET", site.base + "/episodes").status == 200)
            }
            #expect(time < ProviderGateway.providerLimit)
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
        settings.port = try FreePort.next()
        let provider = try MockProvider(settings: settings)
        let configuration = ProviderGateway.Settings(issuer: "http://127.0.0.1:\(settings.port)")
        let port = try FreePort.next()
        try await ProviderGateway.running(configuration, port: port) { site in
            // A provider that is away stops no start.
            #expect(try await FormBrowser().send("GET", site.base + "/episodes").status == 200)
            let browser = try await provider.whileServing { _ in try await site.signedIn() }
            #expect([502, 503].contains(try await refreshing(site, browser).status))
            #expect(try await site.session(browser).status == 200)
            #expect(
                try await FormBrowser().send("GET", site.base + "/auth/login", FormBrowser.navigation).status == 503)
            try await provider.whileServing { _ in
                try await eventually("the tokens are refreshed") {
                    try await refreshing(site, browser).status == 200
                }
                _ = try await site.signedIn()
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
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
            provider.script { $0.faults[.refresh] = [.error(code, status: status)] }
            let response = try await refreshing(site, browser)
            #expect(response.status == expected, "\(response.body)")
            #expect(!response.textWithoutTicket.contains("description of the provider"))
            #expect(try await site.session(browser).status == (expected == 401 ? 401 : 200))
        }
    }

    @Test("a further code ends the session only if endsOn lists it; the log names the key", arguments: [true, false])
    func furtherCode(isListed: Bool) async throws {
        try await ProviderGateway.withProvider {
            if isListed { $0.identity = ["endsOn: [invalid_grant, invalid_request]"] }
        } body: { site, provider in
            let browser = try await site.signedIn()
            provider.script { $0.faults[.refresh] = [.error("invalid_request", status: 400)] }
            #expect(try await refreshing(site, browser).status == (isListed ? 401 : 502))
            #expect(try await site.session(browser).status == (isListed ? 401 : 200))
            // All lines are written before the process exits.
            site.gateway.program.send(SIGTERM)
            #expect(try await site.gateway.program.ending().status == 0)
            let lines = site.gateway.program.lines.filter { $0.contains(#""event":"identity_misconfigured""#) }
            #expect(lines.count == (isListed ? 0 : 1))
            #expect(lines.allSatisfy { $0.contains(#""identity":"company""#) && $0.contains("endsOn") })
        }
    }

    @Test(
        "a refresh that names another provider or sign-in is discarded",
        arguments: [
            TokenForgery(claims: MemberEdit(set: ["iss": #""https://other.example""#])),
            TokenForgery(claims: MemberEdit(set: ["aud": #""other""#])),
            TokenForgery(claims: MemberEdit(set: ["nonce": #""other""#])),
            TokenForgery(claims: MemberEdit(set: ["at_hash": #""AAAAAAAAAAAAAAAAAAAAAA""#])),
            TokenForgery(times: ["auth_time": -900]), TokenForgery(times: ["exp": -900]),
            TokenForgery(signature: .none),
            TokenForgery(signature: .otherKey), TokenForgery(signature: .publicKeyAsSecret),
        ])
    func refreshes(_ forgery: TokenForgery) async throws {
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
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

    @Test("subMayNotChange: a refresh that names another user ends the session, and its tokens are revoked")
    func otherUser() async throws {
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
            let before = site.received("Authorization")
            provider.script { $0.idToken = TokenForgery(claims: MemberEdit(set: ["sub": #""mia""#])) }
            #expect(try await refreshing(site, browser).status == 401)
            #expect(try await site.session(browser).status == 401)
            // No token of the other user reached the upstream.
            #expect(Set(site.received("Authorization").dropFirst(before.count)).count <= 1)
            try await eventually("the revocation") { provider.observations.snapshot().count("POST", "/revoke") > 0 }
        }
    }

    @Test("a reload while the provider is frozen: logins and sign-outs go on, with the documents of before")
    func reload() async throws {
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
            provider.script { $0.faults[.discovery] = [.frozen()] }
            site.gateway.program.send(SIGHUP)
            _ = try await site.gateway.program.waits(for: "the reload") { program in
                program.output.contains("config_reload") ? true : nil
            }
            let other = FormBrowser()
            let login = try await other.send("GET", site.base + "/auth/login", FormBrowser.navigation)
            #expect(login.status == 303, "\(login.body)")
            let response = try await browser.send("DELETE", site.base + "/auth")
            #expect(response.status == 200)
            let redirect = try await browser.send("GET", site.base + "/auth/logout", FormBrowser.navigation)
            #expect(redirect.values(of: "Location").first?.hasPrefix(provider.issuer + "/end_session?") == true)
            #expect(provider.observations.snapshot().count("POST", "/revoke") == 1)
        }
    }

    @Test("claims follow a refresh")
    func claims() async throws {
        try await ProviderGateway.withProvider { site, provider in
            let browser = try await site.signedIn()
            provider.script { $0.claims["groups"] = #"["admins"]"# }
            #expect(try await refreshing(site, browser).status == 200)
            #expect(try await site.user(browser).groups == ["admins"])
            #expect(site.received("X-User-Groups").last == "admins")
        }
    }

    @Test("keys that rotate all the time sign no user out")
    func rotation() async throws {
        try await ProviderGateway.withProvider { site, provider in
            var browsers: [FormBrowser] = []
            for _ in 0..<4 { browsers.append(try await site.signedIn()) }
            // An unknown key is a reason to fetch the keys once a second, so some of these ID tokens cannot be verified.
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
        try await ProviderGateway.withProvider {
            $0.identity = ["exchange: { billing: { audience: https://billing.example.com } }"]
        } body: { site, provider in
            let browser = try await site.signedIn()
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

    @Test("An exchanged token that its upstream rejects is exchanged again, but not for each request")
    func rejectedExchanges() async throws {
        try await ProviderGateway.withProvider {
            $0.identity = ["exchange: { billing: { audience: https://billing.example.com } }"]
        } body: { site, provider in
            // Without refresh tokens only another exchange can help.
            provider.script { $0.tokenResponse.without = ["refresh_token"] }
            let browser = try await site.signedIn()
            let (path, url, clock) = ("/__mock/echo", site.base + "/__mock/echo", ContinuousClock())
            let first = try await browser.send("POST", url, body: "x").status
            #expect(first == 200)
            site.mock.faults.failNext("POST", path, statuses: [401])
            let start = clock.now
            let second = try await browser.send("POST", url, body: "x").status
            #expect(second == 200)
            #expect(Set(site.received("Authorization", path: path)).count == 2)
            // From now on the upstream rejects every token. The client gets its responses.
            site.mock.faults.failNext("POST", path, statuses: Array(repeating: 401, count: 100))
            for _ in 0..<20 {
                let status = try await browser.send("POST", url, body: "x").status
                #expect(status == 401)
            }
            let exchanges = provider.tokenRequests.count { $0.parameters["subject_token"] != nil }
            #expect(exchanges <= 2 + Int((clock.now - start) / .seconds(5)))
            let session = try await site.session(browser).status
            #expect(session == 200)
        }
    }
}
