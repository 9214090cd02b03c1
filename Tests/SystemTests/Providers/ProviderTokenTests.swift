import MockAPI
import TestSupport
import Testing

/// Access tokens that a real provider issues to a client of its own, at a route for them.
@Suite("Access tokens of a real provider", .serialized, .timeLimit(.minutes(3)))
struct ProviderTokenTests {
    private struct Tokens: Decodable {
        let access_token: String
        let token_type: String
    }

    /// A gateway, its provider, and a client of the provider.
    private struct Stage {
        let provider: RealProvider
        let site: ProviderGateway
        private let http = FormBrowser()

        var url: String { site.base + "/__mock/bytes?count=3" }

        /// A request of the client to an endpoint of the provider.
        func call(_ endpoint: String, _ form: String, proof: String? = nil) async throws -> TestResponse {
            let fields = [
                ("Authorization", WebClient.basic("batch", "batch-client-secret")),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ]
            return try await http.send(
                "POST", provider.issuer + endpoint, fields + (proof.map { [("DPoP", $0)] } ?? []), body: form)
        }

        /// A token for an audience: glewlwyd has the scopes of a token in `aud`.
        func token(audience: String = "orders", proof: String? = nil) async throws -> Tokens {
            let form = "grant_type=password&username=jo&password=secret&scope=\(audience)"
            let response = try await call("/token", form, proof: proof)
            try require(response.status == 200, "\(response.body)")
            return try response.json()
        }

        /// A request of the client to the gateway, which has fetched the documents of the provider.
        func ask(_ token: String, _ scheme: String = "Bearer", proof: String? = nil) async throws -> TestResponse {
            let fields = [("Authorization", "\(scheme) \(token)")] + (proof.map { [("DPoP", $0)] } ?? [])
            return try await eventually("the provider is known") {
                let response = try await http.send("GET", url, fields)
                return response.status == 503 ? nil : response
            }
        }
    }

    private func running(introspection: Bool, body: (Stage) async throws -> Void) async throws {
        let port = try FreePort.next()
        try await RealProvider.running(
            .glewlwyd, gateway: "http://127.0.0.1:\(port)", options: ["--api-client", "--token-seconds", "600"]
        ) { provider in
            var settings = ProviderGateway.Settings(issuer: provider.issuer)
            let asking = introspection ? ", introspection: { cache: 1s, rejected: 0s }" : ""
            settings.identity = ["accessTokens: { audience: [orders]\(asking) }"]
            // With Basic, glewlwyd states tokens of the client itself only.
            if introspection { settings.client += ", authentication: client_secret_post" }
            settings.overrides = ["routes.1.authorization=bearer"]
            try await ProviderGateway.running(settings, port: port) { site in
                try await body(Stage(provider: provider, site: site))
            }
        }
    }

    @Test("Rules 133 and 134: the provider is asked about its tokens, and a revoked one is rejected")
    func introspection() async throws {
        try await running(introspection: true) { stage in
            // The first rejection is logged.
            let other = try await stage.token(audience: "billing").access_token
            try await expect(stage.ask(other).problem?.code, equals: "invalid_token")
            try await eventually("the reason is logged") {
                stage.site.gateway.program.output.contains(#""reason":"wrong_audience""#)
            }
            let tokens = [try await stage.token().access_token, try await stage.token().access_token]
            for token in tokens { try await expect(stage.ask(token).status, equals: 200) }
            expect(stage.site.received("Authorization"), equals: tokens.map { "Bearer " + $0 })
            try await expect(stage.ask("unknown").problem?.code, equals: "invalid_token")

            let form = "token=\(tokens[0])&token_type_hint=access_token"
            try await expect(stage.call("/revoke", form).status, equals: 200)
            let rejected = try await eventually("the revoked token is rejected") {
                let response = try await stage.ask(tokens[0])
                return response.status == 200 ? nil : response
            }
            expect(rejected.status == 401 && rejected.problem?.code == "invalid_token")
            try await expect(stage.ask(tokens[1]).status, equals: 200)
        }
    }

    @Test(
        "Identity rules 46 and 47: a token that the provider has bound to a key needs a proof of it for each request",
        arguments: [false, true])
    func dpop(introspection: Bool) async throws {
        let (client, thief) = (try await JoserfcPeer(), try await JoserfcPeer())
        let thumbprint = try await client.thumbprint()
        try await running(introspection: introspection) { stage in
            let request = try await client.proof("POST", stage.provider.issuer + "/token")
            let tokens = try await stage.token(proof: request)
            let token = tokens.access_token
            expect(tokens.token_type, equals: "DPoP")
            expect(JWTText.payload(token).contains(#""cnf":{"jkt":"\#(thumbprint)"}"#))
            let first = try await client.proof("GET", stage.url, token)
            try await expect(stage.ask(token, "DPoP", proof: first).status, equals: 200)
            try await expect(stage.ask(token, "DPoP", proof: first).problem?.code, equals: "invalid_dpop_proof")
            try await expect(stage.ask(token, "DPoP").problem?.code, equals: "invalid_dpop_proof")
            let stolen = try await thief.proof("GET", stage.url, token)
            try await expect(stage.ask(token, "DPoP", proof: stolen).problem?.code, equals: "invalid_dpop_proof")
            try await expect(stage.ask(token, proof: stolen).problem?.code, equals: "invalid_token")
            let second = try await client.proof("GET", stage.url, token)
            try await expect(stage.ask(token, "DPoP", proof: second).status, equals: 200)
            expect(stage.site.received("Authorization") == [] && stage.site.received("DPoP") == [])
            expect(stage.site.received("X-API-TOKEN").count, equals: 2)
        }
    }
}
