import MockAPI
import TestSupport
import Testing

/// Which requests are forwarded and with what, tested through the running program.
@Suite("Policy", .serialized, .timeLimit(.minutes(3)))
struct PolicyTests {
    @Test("Local responses are never cacheable")
    func noStore() async throws {
        try await GatewayProcess.running { gateway, _ in
            let client = gateway.client
            let responses = [
                try await client.signIn(password: "wrong"), try await client.signIn(email: "jo"),
                try await client.get("/auth"), try await client.get("/videos/1"), try await client.get("/nothing"),
                try await client.send("POST", "/episodes"), try await client.signIn(), try await client.get("/auth"),
                try await client.get("/videos/%00"), try await client.send("DELETE", "/auth"),
            ]
            expect(responses.map(\.status), equals: [401, 422, 401, 401, 404, 405, 200, 200, 400, 204])
            for response in responses { expect(response.values(of: "Cache-Control"), equals: ["no-store"]) }
        }
    }
}
