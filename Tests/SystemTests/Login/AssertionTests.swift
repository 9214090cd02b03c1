import CloakroomCore
import MockAPI
import TestSupport
import Testing

/// Signed assertions for an upstream, and opaque access tokens of clients.
@Suite("Assertions and introspection", .serialized, .timeLimit(.minutes(3)))
struct AssertionTests {
    @Test("Rules 130, 131, 133 and 134: sessions and opaque tokens get assertions, until a revocation")
    func journey() async throws {
        try await ProviderGateway.withProvider {
            $0.identity = ["accessTokens: { audience: [orders], introspection: { cache: 1s, rejected: 0s } }"]
            $0.overrides += [
                "session.secrets=0123456789abcdef0123456789abcdef", "upstreams.api.assertion.header=X-Identity",
                "upstreams.api.assertion.audience=api", "upstreams.api.assertion.claims=email",
                "routes.1.authorization=either",
            ]
        } prepare: { provider in
            provider.script {
                $0.introspections["opaque"] = #"{"active":true,"aud":"orders","client_id":"batch","sub":"batch-1"}"#
            }
        } body: { site, provider in
            let browser = try await site.signedIn()
            func ask(_ token: String?, path: String = "/__mock/bytes?count=3") async throws -> TestResponse {
                let fields = token.map { [("Authorization", "Bearer " + $0)] } ?? []
                return try await browser.send("GET", site.base + path, fields + [("X-Identity", "admin")])
            }
            let published = try await browser.send("GET", site.base + "/auth/keys")
            expect(published.status == 200 && published.values(of: "Cache-Control") == ["public, max-age=300"])
            for token in [nil, "opaque", nil, "opaque"] { try await expect(ask(token).status, equals: 200) }
            try await expect(ask(nil, path: "/episodes").status, equals: 200)
            expect(site.received("X-Identity", path: "/episodes"), equals: [])
            let assertions = site.received("X-Identity")
            try require(assertions.count == 4)
            expect(assertions[0], equals: assertions[2])
            for (assertion, subject) in zip(assertions, ["jo", "batch-1"]) {
                let parts = try assertion.split(separator: ".").prefix(2).map {
                    let text = try require(Base64URL.decode($0.utf8))
                    return try require(JSONValue(document: text))
                }
                let keyID = try require(parts[0][path: "kid"]?.string)
                expect(published.body.contains("\"kid\":\"\(keyID)\""))
                expect(parts[1][path: "iss"] == .string(site.base) && parts[1][path: "aud"] == .string("api"))
                expect(parts[1][path: "sub"] == .string(subject) && parts[1][path: "idp"] == .string(provider.issuer))
            }
            try await expect(ask("other").status, equals: 401)
            provider.script { $0.introspections = [:] }
            try await eventually("the revoked token is rejected") { try await ask("opaque").status == 401 }
            provider.script { $0.faults[.introspection] = [.response(500)] }
            let response = try await ask("another")
            expect(response.status == 503 && response.problem?.code == "identity_unavailable")
        }
    }

    /// What the upstream of the library responds.
    private struct Verified: Decodable {
        struct Claims: Decodable {
            let iss, aud, sub, idp: String
            let iat, exp: Int
            let claims: [String: String]
        }

        let assertion, kid, thumbprint, type: String
        let keys: Int
        let claims: Claims
    }

    @Test("Rule 131: a library of other authors verifies assertions with the published keys, also over a rotation")
    func otherLibrary() async throws {
        let port = try FreePort.next()
        let gateway = "http://127.0.0.1:\(port)"
        let secrets = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"]
        let browser = FormBrowser()
        try await withUpstream(of: gateway) { provider, store, upstream in
            func serving<R: Sendable>(
                _ secrets: [String], body: (ProviderGateway) async throws -> R
            ) async throws -> R {
                var settings = ProviderGateway.Settings(issuer: provider.issuer)
                let assertion = ["header=X-Identity", "audience=bytes", "lifetime=10m", "claims=email"]
                settings.overrides = store.settings(secrets: secrets)
                settings.overrides += assertion.map { "upstreams.api.assertion.\($0)" }
                settings.overrides.append("upstreams.api.targets=\(upstream)")
                return try await ProviderGateway.running(settings, port: port, body: body)
            }
            /// The error of a service to which an assertion is presented without the gateway; empty if it is valid.
            func present(_ assertion: String, to service: String = "bytes") async throws -> String {
                let response = try await browser.send("GET", "\(upstream)/\(service)", [("X-Identity", assertion)])
                return response.status == 200 ? "" : response.body
            }

            let first = try await serving([secrets[0]]) { site in
                _ = try await browser.visit(try await site.beginLogin(browser).url)
                let verified: Verified = try await site.bytes(browser).json()
                expect(verified.kid == verified.thumbprint && verified.keys == 1 && verified.type == "identity+jwt")
                let claims = verified.claims
                expect(claims.iss == gateway && claims.aud == "bytes" && claims.exp - claims.iat == 600)
                expect(claims.sub == "jo" && claims.idp == provider.issuer)
                expect(claims.claims, equals: ["email": "jo@example.com"])
                try await expect(present(verified.assertion), equals: "")
                for part in 0..<3 { try await expect(present(Self.changed(verified.assertion, part: part)) != "") }
                let forged = Self.changed(verified.assertion, part: 2)
                try await expect(present(forged).contains("BadSignatureError"))
                try await expect(present(verified.assertion, to: "orders").contains("InvalidClaimError"))
                try await expect(present(verified.assertion, to: "bytes?later=601").contains("ExpiredTokenError"))
                return verified
            }
            // The same session, after a restart.
            let second = try await serving(secrets.reversed()) { site in
                let verified: Verified = try await site.bytes(browser).json()
                expect(verified.kid == verified.thumbprint && verified.keys == 2 && verified.kid != first.kid)
                for assertion in [first, verified] { try await expect(present(assertion.assertion), equals: "") }
                return verified
            }
            let last = try await serving([secrets[1]]) { _ in
                [try await present(first.assertion), try await present(second.assertion)]
            }
            expect(last[0].contains("InvalidKeyIdError") && last[1] == "")
        }
    }

    private func withUpstream(
        of gateway: String, body: (MockProvider, SessionStoreFixture, _ upstream: String) async throws -> Void
    ) async throws {
        try await MockProvider.withServer { provider in
            try await SessionStoreFixture.with(.sqlite) { store in
                try await JoserfcPeer().verifying(assertionsOf: gateway) { try await body(provider, store, $0) }
            }
        }
    }

    /// A token with another byte in a part.
    private static func changed(_ token: String, part: Int) -> String {
        var parts = token.split(separator: ".").map(Array.init)
        // In the middle, where each bit of a character counts.
        let index = parts[part].count / 2
        parts[part][index] = parts[part][index] == "A" ? "B" : "A"
        return parts.map { String($0) }.joined(separator: ".")
    }
}
