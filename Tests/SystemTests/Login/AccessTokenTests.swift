import Foundation
import TestSupport
import Testing

@testable import MockAPI

/// Access tokens of clients, from a provider to an upstream.
@Suite("API clients with tokens", .serialized, .timeLimit(.minutes(3)))
struct AccessTokenTests {
    /// Makes access tokens of the tokens that the provider can sign.
    private static func token(
        _ provider: MockProvider, audience: String = "orders", client: String = "batch",
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
            try await expect(ask(valid).status, equals: 200)
            try await expect(ask(valid).status, equals: 200)
            expect(site.received("Authorization"), equals: ["Bearer " + valid, "Bearer " + valid])
            expect(site.received("X-User-Mail"), equals: ["batch@example.com", "batch@example.com"])
            // The session of the browser, without the field.
            try await expect(ask(nil).status, equals: 200)
            expect(site.received("X-User-Mail").last, equals: "jo@example.com")
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
                expect(response.status == 401 && response.problem?.code == "invalid_token", "\(token)")
                expect(response.values(of: "WWW-Authenticate").contains { $0.contains("invalid_token") })
            }
            expect(site.received("Authorization").count, equals: 3)
            // Unverified, so without the token of the gateway, and the API rejects it.
            try await expect(ask(invalid[0], "POST", path: "/__mock/echo").status, equals: 403)
            expect(site.received("X-API-TOKEN", path: "/__mock/echo"), equals: [])
            expect(site.received("Authorization", path: "/__mock/echo"), equals: ["Bearer " + invalid[0]])
            expect(site.received("X-User-Mail", path: "/__mock/echo"), equals: [])
        }
    }

    @Test("Identity rules 46, 47 and 48: a client of another kind proves that it has the key of its token")
    func dpop() async throws {
        let client = try await JoserfcPeer()
        let thumbprint = try await client.thumbprint()
        try await ProviderGateway.withProvider {
            $0.identity = ["accessTokens: { audience: [orders] }"]
            $0.overrides += ["routes.1.authorization=either"]
        } body: { site, provider in
            let browser = try await site.signedIn()
            let url = site.base + "/__mock/bytes?count=3"
            let token = try Self.token(provider) {
                $0.claims.set["cnf"] = #"{"jkt":"\#(thumbprint)"}"#
            }
            func ask(_ scheme: String, _ proof: String?) async throws -> TestResponse {
                let fields = [("Authorization", "\(scheme) \(token)")] + (proof.map { [("DPoP", $0)] } ?? [])
                return try await browser.send("GET", url, fields)
            }
            let proof = try await client.proof("GET", url, token)
            try await expect(ask("DPoP", proof).status, equals: 200)
            try await expect(ask("DPoP", proof).problem?.code, equals: "invalid_dpop_proof")
            try await expect(ask("Bearer", proof).problem?.code, equals: "invalid_token")
            try await expect(ask("DPoP", nil).problem?.code, equals: "invalid_dpop_proof")
            let other = try await client.proof("GET", url.replacing("127.0.0.1", with: "localhost"), token)
            try await expect(ask("DPoP", other).problem?.code, equals: "invalid_dpop_proof")
            // One whose clock is wrong gets a nonce.
            let challenged = try await ask("DPoP", try await client.proof("GET", url, token, skew: -3_600))
            expect(challenged.status == 401 && challenged.problem?.code == "use_dpop_nonce")
            let nonce = try require(challenged.values(of: "DPoP-Nonce").first)
            let renewed = try await client.proof("GET", url, token, skew: -3_600, nonce: nonce)
            try await expect(ask("DPoP", renewed).status, equals: 200)
            expect(site.received("Authorization") == [] && site.received("DPoP") == [])
            expect(site.received("X-User-Mail"), equals: ["batch@example.com", "batch@example.com"])
        }
    }
}
