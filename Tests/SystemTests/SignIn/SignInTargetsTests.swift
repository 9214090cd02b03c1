import Foundation
import MockAPI
import TestSupport
import Testing

/// An upstream with two targets: requests and identity calls share their state.
@Suite("Sign-ins and the targets of the upstream", .serialized, .timeLimit(.minutes(5)))
struct SignInTargetsTests {
    private struct Status: Decodable {
        struct Upstream: Decodable {
            var targets: [Target]
        }
        struct Target: Decodable {
            var circuit: String
        }
        var upstreams: [Upstream]
    }

    private func circuits(_ gateway: GatewayProcess) async throws -> [String] {
        try await WebClient(gateway.admin).get("/status.json").json(as: Status.self).upstreams[0].targets.map(\.circuit)
    }

    /// Serves with two targets; the first one has a full accept queue and never accepts connections.
    private func withDeafTarget(_ body: (GatewayProcess, RunningMockAPI) async throws -> Void) async throws {
        let deaf = try await BlackholePort(.isDeaf)
        defer { deaf.release() }
        try await MockAPI.withServer(.withTwoUsers) { mock in
            let file = GatewayYAML(upstream: "http://127.0.0.1:\(deaf.port)\", \"\(mock.baseURL)")
            let set = ["timeouts.connect=8s", "timeouts.identity=40s"]
            try await GatewayProcess.running(file, set: set) { try await body($0, mock) }
        }
    }

    /// The time until a request gets a response with 200.
    private func time(_ request: () async throws -> TestResponse) async throws -> Duration {
        let start = ContinuousClock.now
        let response = try await request()
        expect(response.status, equals: 200, "\(response.body)")
        return ContinuousClock.now - start
    }

    @Test("A target that requests found to be down is not tried by sign-ins")
    func knownFromRequests() async throws {
        try await withDeafTarget { gateway, _ in
            // Until a request selects the target that does not respond.
            var longest = Duration.zero
            for _ in 0..<64 where longest < .milliseconds(3_700) {
                longest = max(longest, try await time { try await gateway.client.get("/episodes") })
            }
            #expect(longest > .milliseconds(3_700), "\(longest)")
            try await expect(circuits(gateway).first != "closed")
            let signIn = try await time { try await gateway.client.signIn() }
            #expect(signIn < .milliseconds(7_500), "\(signIn)")
        }
    }
}
