import TestSupport
import Testing

@Suite("Data that the status page does not show")
struct StatusSecrecyTests {
    @Test("Rule 19: the status page is on the admin listener only, read-only and without session data")
    func sessions() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            try await expect(client.signIn().status, equals: 200)
            let ticket = try require(client.cookie)
            try await expect(client.get("/videos/1").status, equals: 200)
            let operators = WebClient(gateway.admin)
            for path in ["/", "/status.js", "/status.json", "/status.json?route=video"] {
                let page = try await operators.get(path)
                expect(page.status, equals: 200)
                expect(page.values(of: "Cache-Control"), equals: ["no-store"])
                expect(page.body.contains("video"), equals: path.hasPrefix("/status.json"), "\(path)")
                for secret in [ticket, "jo@example", "secret\"", "Bearer", "eyJ", "demo-api-token"] {
                    expect(!page.body.contains(secret), "\(path): \(secret)")
                }
                try await expect(operators.send("POST", path).status, equals: 405)
                try await expect(client.get(path).status, equals: 404)
            }
        }
    }
}
