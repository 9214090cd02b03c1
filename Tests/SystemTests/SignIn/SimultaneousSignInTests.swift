import MockAPI
import TestSupport
import Testing

/// Sign-ins at the same time from one address, tested through the running program.
@Suite("Simultaneous sign-ins", .serialized, .timeLimit(.minutes(4)))
struct SimultaneousSignInTests {
    @Test("Simultaneous sign-ins of two users never return each other's data")
    func twoPeople() async throws {
        try await GatewayProcess.running { gateway, _ in
            let people = [("jo@example.com", "secret"), ("mia@example.com", "geheim")]
            let cookies = try await withThrowingTaskGroup(of: [String].self) { group in
                for (email, password) in people + people {
                    let first = gateway.client
                    group.addTask {
                        var cookies: [String] = []
                        for _ in 1...10 {
                            let client = first.other()
                            let signedIn = try await client.signIn(email: email, password: password)
                            try expect(signedIn.json(as: WhoAmI.self).user.email, equals: email)
                            let whoAmI = try await client.get("/auth")
                            try expect(whoAmI.json(as: WhoAmI.self).user.email, equals: email)
                            let user = try await client.get("/user")
                            try expect(user.json(as: WhoAmI.User.self).email, equals: email)
                            cookies.append(try require(client.cookie))
                        }
                        return cookies
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            expect(cookies.count, equals: 40)
            expect(Set(cookies).count, equals: 40)
        }
    }
}
