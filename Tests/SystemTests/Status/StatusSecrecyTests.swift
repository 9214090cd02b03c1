import TestSupport
import Testing

@Suite("Data that the status page does not show")
struct StatusSecrecyTests {
    @Test("Rule 19: the status page is on the admin listener only, read-only and without session data")
    func sessions() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            #expect(try await client.signIn().status == 200)
            let ticket = try #require(client.cookie)
            #expect(try await client.get("/videos/1").status == 200)
            let operators = WebClient(gateway.admin)
            for path in ["/", "/status.js", "/status.json", "/status.json?route=video"] {
                let page = try await operators.get(path)
                #expect(page.status == 200)
                #expect(page.values(of: "Cache-Control") == ["no-store"])
                #expect(page.body.contains("video") == path.hasPrefix("/status.json"), "\(path)")
                for secret in [ticket, "jo@example", "secret\"", "Bearer", "eyJ", "demo-api-token"] {
                    #expect(!page.body.contains(secret), "\(path): \(secret)")
                }
                #expect(try await operators.send("POST", path).status == 405)
                #expect(try await client.get(path).status == 404)
            }
        }
    }
}
