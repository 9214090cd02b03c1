import MockAPI
import TestSupport
import Testing

/// Programs that send a name and a password with each request, through the running program.
@Suite("Programs with a name and a password", .serialized, .timeLimit(.minutes(3)))
struct BasicRouteTests {
    @Test("Rules 139 and 140: a program uses a route with its name and password, and signs in once")
    func journey() async throws {
        let set = ["routes.1.authorization=session,basic", "accounts.basic.idle=1h"]
        try await GatewayProcess.running(set: set) { gateway, mock in
            let client = gateway.client
            func ask(_ password: String = "secret", _ fields: [(String, String)] = []) async throws -> TestResponse {
                let authorization = ("Authorization", WebClient.basic("jo@example.com", password))
                return try await client.get("/videos/1", [authorization] + fields)
            }
            for _ in 0..<5 {
                let response = try await ask()
                expect(response.status == 200 && response.values(of: "Set-Cookie") == [])
                expect(response.values(of: "Vary").contains { $0.contains("Authorization") })
            }
            expect(mock.observations.snapshot().count("POST", "/auth"), equals: 1)
            let sent = mock.observations.snapshot().recent.filter { $0.path == "/videos/1" }
            expect(sent.count, equals: 5)
            let areTokens = sent.allSatisfy { request in
                request.values(of: "Authorization").allSatisfy { $0.hasPrefix("Bearer ") }
            }
            expect(areTokens)
            let wrong = try await ask("wrong")
            expect(wrong.status == 401 && wrong.problem?.reason == "invalid_credentials")
            expect(wrong.values(of: "WWW-Authenticate").contains { $0.hasPrefix("Basic ") })
            let ofPage = try await ask("wrong", [("Sec-Fetch-Mode", "cors"), ("Sec-Fetch-Site", "same-origin")])
            expect(ofPage.status == 401 && ofPage.values(of: "WWW-Authenticate") == ["Session realm=\"cloakroom\""])
            // The same counts as those of sign-ins.
            var statuses: [Int] = []
            for _ in 0..<10 { statuses.append(try await ask("wrong").status) }
            expect(statuses.first == 401 && statuses.last == 429)
            try await expect(client.signIn(password: "wrong").status, equals: 429)
            // What is known needs no sign-in.
            try await expect(ask().status, equals: 200)
            let session = try await client.get("/auth")
            expect(session.status, equals: 401)
        }
    }
}
