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
            #expect(published.status == 200 && published.values(of: "Cache-Control") == ["public, max-age=300"])
            for token in [nil, "opaque", nil, "opaque"] { #expect(try await ask(token).status == 200) }
            #expect(try await ask(nil, path: "/episodes").status == 200)
            #expect(site.received("X-Identity", path: "/episodes") == [])
            let assertions = site.received("X-Identity")
            try #require(assertions.count == 4)
            #expect(assertions[0] == assertions[2])
            for (assertion, subject) in zip(assertions, ["jo", "batch-1"]) {
                let parts = try assertion.split(separator: ".").prefix(2).map {
                    let text = try #require(Base64URL.decode($0.utf8))
                    return try #require(JSONValue(document: text))
                }
                let keyID = try #require(parts[0][path: "kid"]?.string)
                #expect(published.body.contains("\"kid\":\"\(keyID)\""))
                #expect(parts[1][path: "iss"] == .string(site.base) && parts[1][path: "aud"] == .string("api"))
                #expect(parts[1][path: "sub"] == .string(subject) && parts[1][path: "idp"] == .string(provider.issuer))
            }
            #expect(try await ask("other").status == 401)
            provider.script { $0.introspections = [:] }
            try await eventually("the revoked token is rejected") { try await ask("opaque").status == 401 }
            provider.script { $0.faults[.introspection] = [.response(500)] }
            let response = try await ask("another")
            #expect(response.status == 503 && response.problem?.code == "identity_unavailable")
        }
    }
}
