import MockAPI
import TestSupport
import Testing

/// Which tokens are revoked upstream when sessions are ended by id, tested through the running program.
@Suite("The tokens of ended sessions", .serialized, .timeLimit(.minutes(4)))
struct EndedTokensTests {
    @Test("Rule 40: the memory store revokes tokens upstream, whether a user, an operator or eviction ends the session")
    func memory() async throws {
        let set = ["session.maxSessionsPerAccount=2", "admin.token=an-admin-token-of-24-bytes"]
        try await GatewayProcess.running(set: set) { gateway, mock in
            func revocations(_ count: Int) async throws {
                try await eventually("\(count) tokens are revoked") {
                    mock.observations.snapshot().count("POST", "/auth/revoke") == count
                }
            }
            let clients = (0..<3).map { _ in gateway.client.other() }
            for client in clients { try await expect(client.signIn().status, equals: 200) }
            try await revocations(1)
            try await eventually("the audit line of the eviction") {
                gateway.program.output.contains("sessions_evicted")
            }
            try await expect(clients[0].get("/auth").status, equals: 401)
            try await expect(clients[1].send("DELETE", "/auth/sessions").status, equals: 200)
            try await revocations(2)
            let operatorsClient = WebClient(gateway.admin)
            let response = try await operatorsClient.send(
                "POST", "/sessions/revoke",
                [("Authorization", "Bearer an-admin-token-of-24-bytes"), ("Content-Type", "application/json")],
                body: #"{"user":"JO@example.com"}"#)
            expect(response.body, equals: #"{"ended":1}"#)
            try await revocations(3)
            try await eventually("the audit line of the revocation") {
                gateway.program.output.contains(#""tokens":"revoking""#)
            }
        }
    }
}
