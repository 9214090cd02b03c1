import Foundation
import TestSupport
import Testing

/// The real providers without a gateway: what the contract suite relies on.
@Suite("Real providers", .serialized, .timeLimit(.minutes(3)))
struct RealProviderTests {
    /// RFC 7636 Appendix B.
    private static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    private static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

    private struct Tokens: Decodable {
        let access_token: String
        let refresh_token: String
        let id_token: String?
    }

    /// A request of the client, without the cookies of the browser.
    private func token(_ provider: RealProvider, _ form: String) async throws -> TestResponse {
        let browser = FormBrowser()
        let endpoint = try await metadata(provider, browser).token_endpoint
        let client = WebClient.basic("cloakroom", "cloakroom-client-secret")
        return try await browser.send(
            "POST", endpoint,
            [("Authorization", client), ("Content-Type", "application/x-www-form-urlencoded")], body: form)
    }

    private struct Metadata: Decodable {
        let issuer: String
        let authorization_endpoint: String
        let token_endpoint: String
        let jwks_uri: String
        let end_session_endpoint: String
    }

    private func metadata(_ provider: RealProvider, _ browser: FormBrowser) async throws -> Metadata {
        try await browser.send("GET", provider.issuer + "/.well-known/openid-configuration").json()
    }

    private func running(
        _ kind: RealProvider.Kind, _ body: (RealProvider, String, ScriptedServer) async throws -> Void
    ) async throws {
        let response = ScriptedServer.response("200 OK", "")
        try await ScriptedServer.run([response]) { port, client in
            let gateway = "http://127.0.0.1:\(port)"
            try await RealProvider.running(kind, gateway: gateway) { try await body($0, gateway, client) }
        }
    }

    @Test(
        "a user signs in, tokens are refreshed, and a sign-out reaches the client",
        arguments: RealProvider.Kind.allCases)
    func wholeLife(_ kind: RealProvider.Kind) async throws {
        try await running(kind) { provider, gateway, client in
            let browser = FormBrowser()
            let metadata = try await metadata(provider, browser)
            expect(metadata.issuer, equals: provider.issuer)
            let callback = gateway + "/auth/callback"
            let parameters =
                provider.parameters.merging([
                    "response_type": "code", "client_id": "cloakroom", "redirect_uri": callback, "state": "s-1",
                    "nonce": "n-1", "code_challenge": Self.challenge, "code_challenge_method": "S256",
                    "scope": provider.scopes.joined(separator: " "),
                ]) { $1 }
            var url = try require(URLComponents(string: metadata.authorization_endpoint))
            url.queryItems = parameters.sorted { $0.key < $1.key }.map { URLQueryItem(name: $0.key, value: $0.value) }
            let page = try await provider.signIn(browser, at: url.string ?? "", callback: callback)
            expect(page.response == nil, "\(page)")
            expect(page.query["state"] == "s-1" && page.query["iss"] == provider.issuer)
            let code = try require(page.query["code"])

            let redirect = "http%3A%2F%2F127.0.0.1%3A\(gateway.port)%2Fauth%2Fcallback"
            let first = try await token(
                provider,
                "grant_type=authorization_code&code=\(code)&redirect_uri=\(redirect)&code_verifier=\(Self.verifier)")
            let tokens: Tokens = try first.json()
            let claims = JWTText.payload(tokens.id_token ?? "")
            expect(claims.contains(#""email":"jo@example.com""#) && claims.contains(#""nonce":"n-1""#))
            let second = try await token(
                provider, "grant_type=refresh_token&refresh_token=\(tokens.refresh_token)")
            try expect(second.json(as: Tokens.self).refresh_token != tokens.refresh_token)

            let sessionID = try require(claims.firstMatch(of: /"sid":"([^"]*)"/)).1
            try await provider.signOut(browser, sessionID: String(sessionID))
            let request = try await eventually("the logout token arrives") { client.requests.first }
            expect(request.hasPrefix("POST /auth/backchannel "))
            expect(request.contains("logout_token="))
        }
    }

    @Test("a wrong password does not sign in", arguments: RealProvider.Kind.allCases)
    func wrongPassword(_ kind: RealProvider.Kind) async throws {
        try await running(kind) { provider, gateway, _ in
            let browser = FormBrowser()
            let endpoint = try await metadata(provider, browser).authorization_endpoint
            let callback = gateway + "/auth/callback"
            let url =
                endpoint + "?response_type=code&client_id=cloakroom&scope=openid&state=s-1&nonce=n-1"
                + "&code_challenge_method=S256&code_challenge=\(Self.challenge)&redirect_uri=\(callback)"
            let page = try await provider.signIn(browser, at: url, callback: callback, password: .secondFactor)
            expect(page.response != nil)
        }
    }
}
