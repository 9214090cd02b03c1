import TestSupport
import Testing

@testable import MockAPI

/// Access tokens of clients, from a provider to an upstream.
@Suite("API clients with tokens", .serialized, .timeLimit(.minutes(3)))
struct AccessTokenTests {
    /// Makes access tokens of the tokens that the provider can sign.
    private static func token(
        _ provider: RunningMockProvider, audience: String = "orders", client: String = "batch",
        change: (inout TokenForgery) -> Void = { _ in }
    ) throws -> String {
        var forgery = TokenForgery()
        forgery.header = MemberEdit(set: ["typ": #""at+jwt""#])
        forgery.claims = MemberEdit(
            set: ["aud": "\"\(audience)\"", "client_id": "\"\(client)\"", "email": #""batch@example.com""#],
            without: ["events"])
        change(&forgery)
        provider.script { $0.logoutToken = forgery }
        return try provider.logoutToken(subject: "batch-1")
    }

    @Test("Identity rules 39, 40, 41, 42 and 45: a program uses a route with its token, and only with that")
    func journey() async throws {
        try await ProviderGateway.withProvider {
            $0.identity = ["accessTokens: { audience: [orders] }"]
            $0.overrides += ["routes.1.authorization=either", "routes.3.authorization=pass"]
        } body: { site, provider in
            let browser = try await site.signedIn()
            func ask(_ token: String?, _ method: String = "GET", path: String = "/__mock/bytes?count=3") async throws
                -> TestResponse
            {
                let fields = token.map { [("Authorization", "Bearer " + $0)] } ?? []
                return try await browser.send(method, site.base + path, fields)
            }
            let valid = try Self.token(provider)
            #expect(try await ask(valid).status == 200)
            #expect(try await ask(valid).status == 200)
            #expect(site.received("Authorization") == ["Bearer " + valid, "Bearer " + valid])
            #expect(site.received("X-User-Mail") == ["batch@example.com", "batch@example.com"])
            // The session of the browser, without the field.
            #expect(try await ask(nil).status == 200)
            #expect(site.received("X-User-Mail").last == "jo@example.com")
            let invalid = [
                try Self.token(provider, audience: "other"), try Self.token(provider, audience: "cloakroom"),
                try Self.token(provider, client: "cloakroom"),
                try Self.token(provider) { $0.header = MemberEdit(set: ["typ": #""JWT""#]) },
                try Self.token(provider) { $0.signature = .otherKey },
                try Self.token(provider) { $0.signature = .none },
                try Self.token(provider) { $0.signature = .publicKeyAsSecret },
                try Self.token(provider) { $0.times = ["exp": -60] },
                try Self.token(provider) { $0.times = ["exp": 315_360_000] },
            ]
            for token in invalid {
                let response = try await ask(token)
                #expect(response.status == 401 && response.problem?.code == "invalid_token", "\(token)")
                #expect(response.values(of: "WWW-Authenticate").contains { $0.contains("invalid_token") })
            }
            #expect(site.received("Authorization").count == 3)
            // Unverified, so without the token of the gateway, and the API rejects it.
            #expect(try await ask(invalid[0], "POST", path: "/__mock/echo").status == 403)
            #expect(site.received("X-API-TOKEN", path: "/__mock/echo") == [])
            #expect(site.received("Authorization", path: "/__mock/echo") == ["Bearer " + invalid[0]])
            #expect(site.received("X-User-Mail", path: "/__mock/echo") == [])
        }
    }
}
