import AsyncHTTPClient
import MockAPI
import TestSupport
import Testing

/// Sign-ins at the same time from one address, tested through the running program.
@Suite("Simultaneous sign-ins", .serialized, .timeLimit(.minutes(4)))
struct SimultaneousSignInTests {
    private func statuses(
        _ count: Int, at gateway: GatewayProcess, _ signIn: @escaping @Sendable (WebClient, Int) async throws -> Int
    ) async throws -> [Int: Int] {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = count
        let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let base = gateway.clear
        return try await stopping {
            try? await http.shutdown()
        } after: {
            try await withThrowingTaskGroup(of: Int.self) { group in
                for number in 0..<count {
                    group.addTask { try await signIn(WebClient(base, http: http), number) }
                }
                return try await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
            }
        }
    }

    @Test(
        "64 right passwords from one address succeed, and of 64 wrong ones the API checks at most 30",
        arguments: SessionStoreFixture.Kind.allCases)
    func oneAddress(kind: SessionStoreFixture.Kind) async throws {
        try await SessionStoreFixture.with(kind) { place in
            let settings = place.settings() + ["accounts.signInsPerAddress=0"]
            try await GatewayProcess.running(set: settings) { gateway, mock in
                let right = try await statuses(64, at: gateway) { client, _ in try await client.signIn().status }
                #expect(right == [200: 64])
                #expect(mock.observations.snapshot().count("POST", "/auth") == 64)
                let wrong = try await statuses(64, at: gateway) { client, number in
                    try await client.signIn(email: "user-\(number)@example.com", password: "no").status
                }
                #expect(wrong == [401: 30, 429: 34])
                #expect(mock.observations.snapshot().count("POST", "/auth") == 94)
            }
        }
    }
}
