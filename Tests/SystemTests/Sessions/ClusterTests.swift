import Foundation
import MockAPI
import TestSupport
import Testing

/// Two gateways and a real Valkey cluster, through the running programs.
@Suite("Sessions in a Valkey cluster", .serialized, .timeLimit(.minutes(4)))
struct ClusterTests {
    /// The node timeout, plus 2 s for the election and for the gateway to notice, and much more for a busy machine.
    private static let failoverLimit = Duration.seconds(30)
    private static let clients = 12

    private func with(_ test: (ValkeyCluster, GatewayProcess, GatewayProcess) async throws -> Void) async throws {
        try await SessionStoreFixture.with(.cluster) { place in
            let cluster = try require(place.cluster)
            try await MockAPI.withServer(.withTwoUsers) { mock in
                let file = GatewayYAML(upstream: mock.baseURL)
                try await GatewayProcess.running(file, set: place.settings()) { first in
                    try await GatewayProcess.running(file, set: place.settings()) { second in
                        try await test(cluster, first, second)
                    }
                }
            }
        }
    }

    /// Signs clients in at a gateway. Their sessions are in random slots.
    private func signedIn(_ gateway: GatewayProcess) async throws -> [WebClient] {
        var clients: [WebClient] = []
        for _ in 0..<Self.clients {
            let client = gateway.client
            try await expect(client.signIn().status, equals: 200)
            clients.append(client)
        }
        return clients
    }

    /// Requests until the status is 200. Each other status has to be 503: a session is never lost or rejected.
    private func isServed(_ client: WebClient) async throws {
        var seen: Set<Int> = []
        try await eventually("the session is served", within: Self.failoverLimit) {
            let status = try await client.get("/videos/1").status
            seen.insert(status)
            return status == 200
        }
        expect(seen.isSubset(of: [200, 503]))
    }

    @Test("A sign-in at one gateway is valid at the other, and so are its sign-out and sign-out everywhere")
    func twoGateways() async throws {
        try await with { _, first, second in
            let clients = try await signedIn(first)
            for client in clients {
                let elsewhere = second.client.other(cookie: client.cookie)
                try await expect(elsewhere.get("/videos/1").status, equals: 200)
            }
            let ended = second.client.other(cookie: clients[0].cookie)
            try await expect(clients[0].send("DELETE", "/auth").status, equals: 204)
            try await eventually("the sign-out is effective at the other gateway", within: .seconds(15)) {
                try await ended.get("/videos/1").status == 401
            }
            expect((200...204).contains(try await clients[1].send("DELETE", "/auth/sessions").status))
            for client in clients.dropFirst(2) {
                let elsewhere = second.client.other(cookie: client.cookie)
                try await eventually("the session has ended everywhere", within: .seconds(15)) {
                    try await elsewhere.get("/videos/1").status == 401
                }
            }
            try await expect(clients[1].get("/videos/1").status, equals: 200)
        }
    }

    @Test("After kill -9 of any primary, responses are 200 or 503 and every session is served again")
    func killedPrimaries() async throws {
        try await with { cluster, first, second in
            let clients = try await signedIn(first)
            for victim in try await cluster.primaries() {
                // One replica has all acknowledged writes.
                try await expect(victim.run("WAIT", "1", "5000").integer, equals: 1)
                try await cluster.failOver(victim)
                for client in clients {
                    try await isServed(client)
                    try await isServed(second.client.other(cookie: client.cookie))
                }
                let another = second.client
                try await expect(another.signIn().status, equals: 200)
                try await victim.start()
                try await cluster.settled()
            }
        }
    }
}
