import Foundation
import MockAPI
import TestSupport
import Testing

/// What the gateway needs from OpenID Providers, with two real ones.
@Suite("ProviderContract", .serialized, .timeLimit(.minutes(5)))
struct ProviderContractTests {
    typealias Kind = RealProvider.Kind

    /// A gateway, its provider, and a browser without a session.
    private struct Stage {
        let provider: RealProvider
        let site: ProviderGateway
        let browser = FormBrowser()

        var callback: String { site.base + "/auth/callback" }

        /// The authorization request and the callback of a login; the callback is not requested.
        func loginUntilCallback(
            _ query: String = "", password: RealProvider.Password = .right
        ) async throws -> FormBrowser.Page {
            let request = try await site.beginLogin(browser, query)
            return try await provider.signIn(browser, at: request.url, callback: callback, password: password)
        }

        /// A complete login.
        @discardableResult
        func login(
            _ query: String = "", password: RealProvider.Password = .right
        ) async throws -> FormBrowser.Page {
            try await browser.visit(try await loginUntilCallback(query, password: password).url)
        }
    }

    private func running(
        _ kind: Kind, clientKeys: String? = nil, change: (inout ProviderGateway.Settings) -> Void = { _ in },
        body: (Stage) async throws -> Void
    ) async throws {
        let port = try FreePort.next()
        try await RealProvider.running(kind, gateway: "http://127.0.0.1:\(port)", clientKeys: clientKeys) { provider in
            var settings = ProviderGateway.Settings(issuer: provider.issuer)
            settings.identity = [
                "scopes: [\(provider.scopes.joined(separator: ", "))]",
                "parameters: { \(provider.parameters.map { "\($0.key): \($0.value)" }.joined(separator: ", ")) }",
                "keep: { claims: [name, email, groups, sid] }",
            ]
            change(&settings)
            try await ProviderGateway.running(settings, port: port) { site in
                try await body(Stage(provider: provider, site: site))
            }
        }
    }

    // MARK: - Login

    @Test(
        "a login leads to a session, to the page it was for, and to the upstream with token and claims",
        arguments: Kind.allCases)
    func login(_ kind: Kind) async throws {
        try await running(kind) { stage in
            try await expect(stage.site.bytes(stage.browser).status, equals: 401)
            let page = try await stage.login("returnTo=/__mock/bytes?count=5")
            expect(page.url, equals: stage.site.base + "/__mock/bytes?count=5")
            expect(page.status == 200 && page.response?.body.utf8.count == 5)
            let user = try await stage.site.user(stage.browser)
            expect(user.email == "jo@example.com" && user.name == "Jo Example" && user.groups == ["staff", "a, b"])
            let token = try require(stage.site.received("Authorization").last)
            expect(token.hasPrefix("Bearer eyJ"))
            expect(stage.site.received("X-User-Mail").last, equals: "jo@example.com")
            expect(stage.site.received("X-User-Groups").last, equals: "staff,a%2C%20b")
            // Nothing of the provider is in the browser.
            let own = stage.browser.cookies(of: stage.site.base)
            expect(own.keys.sorted(), equals: [WebClient.cookieName])
            expect(stage.browser.responses.allSatisfy { !$0.body.contains(token.dropFirst(7)) })
        }
    }

    @Test("the claims can come from userinfo", arguments: Kind.allCases)
    func userInfo(_ kind: Kind) async throws {
        try await running(kind) {
            $0.identity = $0.identity.filter { !$0.hasPrefix("keep:") } + ["user: userInfo"]
        } body: { stage in
            try await stage.login()
            let user = try await stage.site.user(stage.browser)
            expect(user.email == "jo@example.com" && user.name == "Jo Example")
        }
    }

    @Test("the client authenticates with a key, and each request has a new assertion", arguments: Kind.allCases)
    func privateKeyJWT(_ kind: Kind) async throws {
        let folder = try TemporaryDirectory()
        try await ClientKey.write(to: folder)
        let client =
            "id: cloakroom, authentication: private_key_jwt, keyFile: \(folder.path(of: "client.pem")), keyID: k1, "
            + "algorithm: ES256, assertionAudience: tokenEndpoint"
        try await running(kind, clientKeys: folder.path(of: "jwks.json")) {
            $0.client = client
            // glewlwyd accepts no audience but the URL of the request, against RFC 9126 §2.
            if kind == .glewlwyd { $0.identity.append("pushed: never") }
        } body: { stage in
            try await stage.login()
            try await expect(stage.site.session(stage.browser).status, equals: 200)
            stage.site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
            try await expect(stage.site.bytes(stage.browser).status, equals: 200)
        }
    }

    @Test("a pushed request leaves no parameter for the browser to change (RFC 9126)")
    func pushed() async throws {
        for mode in ["auto", "always", "never"] {
            try await running(.glewlwyd) {
                $0.identity.append("pushed: \(mode)")
            } body: { stage in
                let request = try await stage.site.beginLogin(stage.browser)
                expect(request.query["request_uri"] != nil, equals: mode != "never")
                expect(request.query["nonce"] == nil, equals: mode != "never")
                expect(request.query["redirect_uri"] == nil, equals: mode != "never")
                try await stage.login()
                try await expect(stage.site.session(stage.browser).status, equals: 200)
            }
        }
    }

    // MARK: - Refresh

    @Test("a token that the upstream rejects is refreshed, once", arguments: Kind.allCases)
    func refresh(_ kind: Kind) async throws {
        try await running(kind) { stage in
            try await stage.login()
            stage.site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
            try await expect(stage.site.bytes(stage.browser).status, equals: 200)
            let tokens = stage.site.received("Authorization")
            expect(tokens.count == 2 && Set(tokens).count == 2)
            try await expect(stage.site.user(stage.browser).email, equals: "jo@example.com")
        }
    }

    @Test("a wrong client secret ends nothing, and the right one continues the session", arguments: Kind.allCases)
    func wrongClientSecretEndsNothing(_ kind: Kind) async throws {
        let folder = try TemporaryDirectory()
        try folder.write("cloakroom-client-secret", to: "secret")
        try await running(kind) {
            $0.client = "id: cloakroom, secretFile: \(folder.path(of: "secret"))"
            $0.overrides = ["reload.interval=0s"]
        } body: { stage in
            func change(_ secret: String) async throws {
                try folder.write(secret, to: "secret")
                try await stage.site.gateway.reload()
            }
            try await stage.login()
            try await change("wrong")
            stage.site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
            let response = try await stage.site.bytes(stage.browser)
            expect(response.status, equals: 502)
            expect(response.problem?.code, equals: "identity_misconfigured")
            try await expect(stage.site.session(stage.browser).status, equals: 200)
            try await change("cloakroom-client-secret")
            // glewlwyd has revoked the refresh token that came with the wrong secret, and names no reason.
            if kind == .glewlwyd { try await stage.login() }
            try await eventually("the tokens are refreshed") {
                stage.site.mock.faults.failNext("GET", "/__mock/bytes", statuses: [401])
                return try await stage.site.bytes(stage.browser).status == 200
            }
            try await expect(stage.site.session(stage.browser).status, equals: 200)
        }
    }

    @Test("new signing keys need no restart")
    func rotationNeedsNoRestart() async throws {
        try await running(.idpyoidc) { stage in
            try await stage.login()
            for change in ["rotate", "forget"] {
                try await expect(
                    stage.browser.send("POST", "\(stage.provider.issuer)/test/\(change)").status, equals: 204)
            }
            let other = Stage(provider: stage.provider, site: stage.site)
            try await other.login()
            try await expect(stage.site.session(other.browser).status, equals: 200)
            try await expect(stage.site.session(stage.browser).status, equals: 200)
        }
    }

    // MARK: - Ends

    @Test("a sign-out ends the session, and names where it continues at the provider", arguments: Kind.allCases)
    func signOut(_ kind: Kind) async throws {
        struct Continuation: Decodable {
            let next: String
        }
        try await running(kind) { stage in
            try await stage.login()
            let response = try await stage.browser.send("DELETE", stage.site.base + "/auth")
            expect(response.status, equals: 200)
            let next = try response.json(as: Continuation.self).next
            expect(next, equals: stage.site.base + "/auth/logout")
            // A page's script sees no token; a navigation is redirected to a URL with one.
            expect(!response.textWithoutTicket.contains("eyJ"))
            let redirect = try await stage.browser.send("GET", next, FormBrowser.navigation)
            expect(redirect.status, equals: 303)
            let url = try require(redirect.values(of: "Location").first)
            expect(url.hasPrefix(stage.provider.issuer + "/end_session?"))
            let query = FormBrowser.query(of: url)
            expect(query["client_id"] == "cloakroom" && query["id_token_hint"]?.hasPrefix("eyJ") == true)
            expect(query["post_logout_redirect_uri"], equals: stage.site.base + "/")
            try await expect(stage.site.session(stage.browser).status, equals: 401)
            expect(empty: stage.browser.cookies(of: stage.site.base))
            let page = try await stage.browser.visit(url, stop: stage.site.base)
            switch kind {
            case .idpyoidc: expect(page.url.hasPrefix(stage.site.base + "/"))
            // It asks the user first.
            case .glewlwyd: expect(page.url.contains("/login.html"))
            }
        }
    }

    @Test("a sign-out at the provider ends the session here, and only that one", arguments: Kind.allCases)
    func backChannel(_ kind: Kind) async throws {
        try await running(kind) { stage in
            let other = Stage(provider: stage.provider, site: stage.site)
            try await other.login()
            try await stage.login()
            let sessionID = try await require(stage.site.user(stage.browser).sid)
            try await stage.provider.signOut(stage.browser, sessionID: sessionID)
            try await eventually("the session ends") {
                try await stage.site.session(stage.browser).status == 401
            }
            try await expect(stage.site.session(other.browser).status, equals: 200)
        }
    }

    // MARK: - Context classes and audiences

    @Test("a route that requires a context class leads to the second factor, and then to the route")
    func stepUp() async throws {
        try await running(.idpyoidc) {
            // Otherwise idpyoidc returns its session as it is.
            $0.identity[1] = "parameters: { prompt: login consent }"
        } body: { stage in
            try await stage.login()
            let strong = stage.site.base + "/__mock/slow?seconds=0"
            let rejected = try await stage.browser.send("GET", strong)
            expect(rejected.status == 401 && rejected.problem?.code == "step_up")
            let challenge = rejected.values(of: "WWW-Authenticate").first ?? ""
            expect(challenge.contains(#"error="insufficient_user_authentication""#))
            expect(challenge.contains(#"acr_values="urn:example:mfa""#))
            let page = try await stage.login("for=strong&returnTo=/__mock/slow?seconds=0", password: .secondFactor)
            expect(page.status == 200 && page.url == strong)
            try await expect(stage.site.bytes(stage.browser).status, equals: 200)
        }
    }

    @Test("an upstream with an audience of its own gets a token for it (RFC 8693)")
    func exchange() async throws {
        try await running(.idpyoidc) {
            $0.identity.append("exchange: { billing: { audience: https://billing.example.com } }")
        } body: { stage in
            try await stage.login()
            for _ in 0..<2 {
                let response = try await stage.browser.send("POST", stage.site.base + "/__mock/echo", body: "x")
                expect(response.status, equals: 200)
            }
            try await expect(stage.site.bytes(stage.browser).status, equals: 200)
            let tokens = stage.site.received("Authorization", path: "/__mock/echo")
            expect(tokens.count == 2 && Set(tokens).count == 1)
            expect(tokens.allSatisfy { JWTText.payload($0).contains("https://billing.example.com") })
            let own = try require(stage.site.received("Authorization").last)
            expect(own.hasPrefix("Bearer eyJ") && !JWTText.payload(own).contains("billing"))
        }
    }
}
