import Foundation
import TestSupport
import Testing

@testable import MockAPI

/// Everything that a provider, or a page that forges its callbacks, can do wrong in a login, observed from outside.
@Suite("Logins that fail", .serialized, .timeLimit(.minutes(5)))
struct LoginRefusalTests {
    /// A sentence of the provider. It must not appear anywhere.
    private static let sentences = ["description of the provider", "sentence of the provider"]

    /// Logs a new browser in with each deviation.
    private func check(
        _ forgeries: [LoginForgery], _ site: ProviderGateway, _ provider: RunningMockProvider
    ) async throws {
        for forgery in forgeries {
            provider.script { script in
                script = ProviderScript()
                forgery.change(&script)
            }
            let browser = FormBrowser()
            let request = try await site.beginLogin(browser)
            let callback = try await browser.visit(request.url, stop: site.base)
            let url = try #require(callback.response == nil ? callback.url : nil, "\(forgery.name)")
            let response = try await browser.send("GET", url)
            let hasSession = browser.cookies(of: site.base)[WebClient.cookieName] != nil
            #expect(hasSession == (forgery.code == nil), "\(forgery.name)")
            if let code = forgery.code {
                #expect(response.problem?.code == code, "\(forgery.name): \(response.status) \(response.body)")
                #expect(response.status == forgery.status, "\(forgery.name)")
            } else {
                #expect(try await site.session(browser).status == 200, "\(forgery.name): \(response.body)")
            }
            #expect(response.values(of: "Cache-Control").contains { $0.contains("no-store") }, "\(forgery.name)")
            let text = response.textWithoutTicket
            for word in Self.sentences + ["eyJ"] { #expect(!text.contains(word), "\(forgery.name)") }
        }
        try expectSecrecy(site, provider)
    }

    /// Neither the log nor a page contains what the provider sent.
    private func expectSecrecy(_ site: ProviderGateway, _ provider: RunningMockProvider) throws {
        let log = site.gateway.program.output + site.gateway.program.errors
        #expect(!log.isEmpty)
        for sentence in Self.sentences { #expect(!log.contains(sentence)) }
        let secrets = provider.issuedSecrets
        #expect(!secrets.isEmpty)
        for secret in secrets where secret.utf8.count > 20 { #expect(!log.contains(secret)) }
        #expect(!log.contains(provider.settings.clientSecret))
    }

    @Test("Identity rule 16: each invalid claim of an ID token fails the login (everyClaimHasItsRefusal)")
    func claims() async throws {
        try await ProviderGateway.withProvider { try await check(LoginForgery.claims, $0, $1) }
    }

    @Test(
        "Identity rule 12: every signature but the right one, and each malformed token, fails (noneAndHMACAreRefused)")
    func signatures() async throws {
        try await ProviderGateway.withProvider { try await check(LoginForgery.signatures, $0, $1) }
    }

    @Test("a new key is fetched at once, and a key that left the set verifies nothing")
    func rotation() async throws {
        try await ProviderGateway.withProvider { site, provider in
            let nothing = LoginForgery("nothing", code: nil) { _ in }
            try await check([nothing], site, provider)
            try provider.rotateKeys(keepsOld: false)
            try await check([nothing, LoginForgery("retired") { $0.idToken.signature = .retiredKey }], site, provider)
        }
    }

    @Test("a link on another site replaces no session and makes none persistent, and junk cookies stop no callback")
    func foreignLink() async throws {
        try await ProviderGateway.withProvider {
            $0.overrides += ["session.cookie.persistent=onRequest", "session.cookie.sameSite=Lax"]
        } body: {
            site, provider in
            let browser = FormBrowser()
            let foreign =
                FormBrowser.navigation.filter { $0.0 != "Sec-Fetch-Site" } + [("Sec-Fetch-Site", "cross-site")]
            let link = site.base + "/auth/login?persistent=1&returnTo=/episodes"
            // The documents of the provider are fetched in the background.
            _ = try await site.beginLogin(FormBrowser())
            let login = try await browser.send("GET", link, foreign)
            for number in 0..<100 {
                browser.setCookie("\(WebClient.cookieName)-login--\(number)", "junk", of: site.base)
            }
            let callback = try await browser.visit(
                try #require(login.values(of: "Location").first), stop: site.base)
            let created = try await browser.send("GET", callback.url, FormBrowser.navigation)
            #expect(created.status == 303, "\(created.body)")
            let cookie = created.values(of: "Set-Cookie").first { $0.hasPrefix(WebClient.cookieName + "=") }
            #expect(try #require(cookie).contains("Max-Age") == false)
            let before = try await site.session(browser)
            let again = try await browser.send("GET", link, foreign)
            #expect(again.values(of: "Location") == ["/episodes"])
            #expect(again.values(of: "Set-Cookie").isEmpty)
            #expect(try await site.session(browser).body == before.body)
            let own = try await browser.send("GET", link, FormBrowser.navigation)
            #expect(own.values(of: "Location").first?.hasPrefix(provider.issuer) == true)
        }
    }

    @Test("callbacks of no login are counted, and at most 10 per 10 s are logged")
    func unknownCallbacks() async throws {
        try await ProviderGateway.withProvider { site, _ in
            for _ in 0..<50 {
                let url = site.base + "/auth/callback?code=x&state=" + String(repeating: "A", count: 43)
                #expect(try await FormBrowser().send("GET", url, FormBrowser.navigation).status == 400)
            }
            try await eventually("all of them are counted") {
                try await FormBrowser().send("GET", site.gateway.admin + "/metrics").body
                    .contains(#"cloakroom_logins_total{identity="company",outcome="expired"} 50"#)
            }
            // All lines are written before the process exits.
            site.gateway.program.send(SIGTERM)
            #expect(try await site.gateway.program.ending().status == 0)
            let lines = site.gateway.program.lines.filter { $0.contains("no_pending_login") }
            #expect((1..<50).contains(lines.count))
        }
    }

    @Test("invalid responses of the token endpoint fail the login, and are not shown")
    func responses() async throws {
        try await ProviderGateway.withProvider { try await check(LoginForgery.responses, $0, $1) }
    }

    @Test(
        "a code whose response is lost is not sent again",
        arguments: [
            EndpointFault.closed(), .closed(takesEffect: true), .frozen(), .error("server_error", status: 500),
        ])
    func lostResponse(_ fault: EndpointFault) async throws {
        try await ProviderGateway.withProvider { site, provider in
            let forgery = LoginForgery("lost", code: "identity_unavailable") { $0.faults[.code] = [fault] }
            try await check([forgery], site, provider)
            #expect(provider.observations.snapshot().count("POST", "/token") == 1)
        }
    }

    @Test("Identity rules 4 and 5: a mix-up of providers, and every invalid callback, fails (mixUpIsRefused)")
    func callbacks() async throws {
        try await ProviderGateway.withProvider { try await check(LoginForgery.callbacks, $0, $1) }
    }

    @Test("what differs between providers and is valid signs in", arguments: ProviderAlgorithm.allCases)
    func permitted(_ algorithm: ProviderAlgorithm) async throws {
        var settings = MockProviderSettings()
        settings.algorithm = algorithm
        try await ProviderGateway.withProvider(settings) {
            $0.identity = ["algorithms: [RS256, PS256, ES256, ES384, EdDSA]"]
        } body: { site, provider in
            try await check(
                algorithm == .es256 ? LoginForgery.permitted : Array(LoginForgery.permitted.prefix(1)), site, provider)
        }
    }

    @Test("times that the provider rounds down to seconds are valid without any tolerance for clocks")
    func roundedTimes() async throws {
        try await ProviderGateway.withProvider {
            $0.identity = ["clockSkew: 0s"]
        } body: { site, provider in
            let logins = (0..<3).map { LoginForgery("login \($0)", code: nil) { _ in } }
            try await check(logins, site, provider)
        }
    }

    @Test("an error without the announced issuer is not trusted, but the log names both")
    func errorWithoutIssuer() async throws {
        try await ProviderGateway.withProvider { site, provider in
            let forgery = LoginForgery("error without iss", code: "login_failed") {
                $0.denial = "access_denied"
                $0.callback.without = ["iss"]
            }
            // The log of a login that succeeds and of one that does not.
            try await check([LoginForgery("none", code: nil) { _ in }, forgery], site, provider)
            try await eventually("both are in the log") {
                site.gateway.program.output.contains("issuer_missing:access_denied")
            }
        }
    }

    @Test("Identity rule 13: oneStrangeKeySpoilsNothing, and shortCoordinatesArePadded")
    func keySets() async throws {
        for (position, edit) in Self.keySets.enumerated() {
            try await ProviderGateway.withProvider(prepare: { provider in
                try provider.rotateKeys(keepsOld: position % 2 == 0, hasShortCoordinate: true)
                provider.script { $0.keySet = edit }
            }) { site, provider in
                let change = LoginForgery("key set \(position)", code: nil) { $0.keySet = edit }
                try await check([change], site, provider)
            }
        }
    }

    private static var keySets: [KeySetEdit] {
        var strange = KeySetEdit()
        strange.hasWeakKey = true
        strange.others = [
            #"{"kty":"oct","kid":"key-2","k":"c2VjcmV0"}"#, #"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#,
            #"{"kty":"RSA","use":"enc","alg":"RSA-OAEP-256","n":"AA","e":"AQAB"}"#, #"{"kty":"future"}"#, "1", "{}",
            #"{"kty":"RSA","kid":1,"n":"!","e":""}"#,
        ]
        strange.stripsZeros = true
        var bare = KeySetEdit()
        bare.keys.without = ["alg", "use"]
        return [strange, bare]
    }

    @Test(
        "a page for navigations has no script, no sentence of the provider, and a link back",
        arguments: [
            ("login_failed", 502), ("login_refused", 403), ("login_expired", 400), ("identity_unavailable", 503),
        ])
    func pages(code: String, status: Int) async throws {
        try await ProviderGateway.withProvider { site, provider in
            provider.script {
                switch code {
                case "login_failed": $0.idToken.signature = .none
                case "login_refused": $0.denial = "access_denied"
                case "login_expired": $0.callback.set["state"] = String(repeating: "A", count: 43)
                default: $0.faults[.code] = [.error("server_error", status: 500)]
                }
            }
            let browser = FormBrowser()
            let page = try await browser.visit(try await site.beginLogin(browser).url)
            let response = try #require(page.response)
            #expect(response.status == status)
            #expect(response.values(of: "Content-Type").first?.hasPrefix("text/html") == true)
            #expect(response.values(of: "Content-Security-Policy").first?.contains("default-src 'none'") == true)
            #expect(!response.body.contains("<script"))
            #expect(response.body.contains(#"<a href="/episodes">"#))
            for sentence in Self.sentences { #expect(!response.textWithoutTicket.contains(sentence)) }
            #expect(browser.cookies(of: site.base)[WebClient.cookieName] == nil)
        }
    }

    @Test(
        "Identity rule 6: metadataOfAnotherIssuerIsRefused: with invalid documents of the provider there are no logins")
    func documents() async throws {
        let forgeries = [
            LoginForgery("issuer") { $0.discovery.set["issuer"] = #""https://other.example""# },
            LoginForgery("no token endpoint") { $0.discovery.without = ["token_endpoint"] },
            LoginForgery("a token endpoint without TLS") {
                $0.discovery.set["token_endpoint"] = #""http://other.example/token""#
            },
            LoginForgery("a member twice") { $0.discovery.extra = #""issuer":"https://other.example""# },
            LoginForgery("a large document") {
                $0.discovery.set["x"] = "\"\(String(repeating: "x", count: 70_000))\""
            },
        ]
        for forgery in forgeries {
            try await ProviderGateway.withProvider(prepare: { provider in
                provider.script { forgery.change(&$0) }
            }) { site, provider in
                try await eventually("the document is fetched") {
                    provider.observations.snapshot().total > 0
                }
                for _ in 0..<3 {
                    let response = try await FormBrowser().send(
                        "GET", site.base + "/auth/login", FormBrowser.navigation)
                    #expect(response.status == 503, "\(forgery.name)")
                    #expect(response.values(of: "Location").isEmpty)
                }
                #expect(provider.logins.isEmpty)
            }
        }
    }

    @Test("a key set that is too large, has too many keys, or is not JSON verifies nothing")
    func invalidKeySets() async throws {
        let key = #"{"kty":"future"}"#
        for body in [
            "[]", "{", #"{"keys":1}"#, #"{"keys":[\#(Array(repeating: key, count: 65).joined(separator: ","))]}"#,
            #"{"keys":[],"x":"\#(String(repeating: "x", count: 70_000))"}"#,
        ] {
            try await ProviderGateway.withProvider(prepare: { provider in
                provider.script { $0.faults[.keys] = [.response(200, body)] }
            }) { site, provider in
                let browser = FormBrowser()
                let request = try await site.beginLogin(browser)
                let callback = try await browser.visit(request.url, stop: site.base)
                let response = try await browser.send("GET", callback.url)
                #expect(response.problem?.code == "identity_unavailable", "\(body.prefix(20))")
                // The code was not spent.
                #expect(provider.observations.snapshot().count("POST", "/token") == 0)
                #expect(browser.cookies(of: site.base)[WebClient.cookieName] == nil)
            }
        }
    }
}
