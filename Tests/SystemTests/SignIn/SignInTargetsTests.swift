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
            let set = ["timeouts.connect=3s", "timeouts.identity=20s"]
            try await GatewayProcess.running(file, set: set) { try await body($0, mock) }
        }
    }

    /// The time until a request gets a response with 200.
    private func time(_ request: () async throws -> TestResponse) async throws -> Duration {
        let start = ContinuousClock.now
        let response = try await request()
        #expect(response.status == 200, "\(response.body)")
        return ContinuousClock.now - start
    }

    @Test("Sign-ins alternate between the targets, each with its user call at the same target")
    func turns() async throws {
        try await MockAPI.withServer(.withTwoUsers) { one in
            try await MockAPI.withServer(.withTwoUsers) { other in
                let file = GatewayYAML(upstream: "\(one.baseURL)\", \"\(other.baseURL)")
                try await GatewayProcess.running(file) { gateway async throws in
                    for _ in 0..<10 { #expect(try await gateway.client.signIn().status == 200) }
                }
                for mock in [one, other] {
                    #expect(mock.observations.snapshot().count("POST", "/auth") == 5)
                    #expect(mock.observations.snapshot().count("GET", "/user") == 5)
                }
            }
        }
    }

    @Test("A target that does not respond costs one sign-in the connect timeout; then sign-ins and requests skip it")
    func deafTarget() async throws {
        try await withDeafTarget { gateway, mock in
            let first = try await time { try await gateway.client.signIn() }
            #expect(first > .milliseconds(2_500) && first < .seconds(10), "\(first)")
            // Found by a sign-in, used by requests and shown to operators.
            let request = try await time { try await gateway.client.get("/episodes") }
            #expect(request < .milliseconds(1_400), "\(request)")
            #expect(try await circuits(gateway).first != "closed")
            #expect(try await circuits(gateway).last == "closed")
            // At most two of them find its back-off expired, which is 1 s and then 2 s.
            var others = Duration.zero
            for _ in 0..<10 { others += try await time { try await gateway.client.signIn() } }
            #expect(others < .seconds(12), "\(others)")
            #expect(mock.observations.snapshot().count("POST", "/auth") == 11)
        }
    }

    @Test("A target that requests found to be down is not tried by sign-ins")
    func knownFromRequests() async throws {
        try await withDeafTarget { gateway, _ in
            let request = try await time { try await gateway.client.get("/episodes") }
            #expect(request > .milliseconds(1_200), "\(request)")
            #expect(try await circuits(gateway).first != "closed")
            let signIn = try await time { try await gateway.client.signIn() }
            #expect(signIn < .milliseconds(2_500), "\(signIn)")
        }
    }
}
