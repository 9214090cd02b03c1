import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("A server that is not of the configured kind", .timeLimit(.minutes(3)))
struct ValkeyTopologyTests {
    private struct Case: Sendable {
        var mode: String
        var role = "master"
        var topology: ValkeyConfiguration.Topology
        var primary: String?
        var reason = "wrong_topology"
        var hint: String
    }

    private static let cases = [
        Case(mode: "cluster", topology: .single, hint: "the server belongs to a cluster: set session.valkey.topology"),
        Case(mode: "standalone", topology: .cluster, hint: "the server does not belong to a cluster"),
        Case(mode: "sentinel", topology: .auto, hint: "the server is a sentinel"),
        Case(mode: "sentinel", topology: .single, hint: "the server is a sentinel"),
        Case(mode: "sentinel", topology: .cluster, hint: "the server is a sentinel"),
        Case(mode: "cluster", topology: .cluster, hint: "the cluster has no slots"),
        Case(mode: "cluster", topology: .auto, hint: "the cluster has no slots"),
        Case(mode: "standalone", topology: .sentinel, primary: "main", hint: "the server is not a sentinel"),
        Case(
            mode: "standalone", role: "slave", topology: .single, reason: "readonly", hint: "the server is a replica"),
    ]

    @Test("It is named in the log, once, with what to change", arguments: cases.indices)
    func named(_ index: Int) async throws {
        let (expected, node) = (Self.cases[index], try await ScriptedNode())
        node.setMode(expected.mode, role: expected.role)
        node.reply(to: "SENTINEL", "-ERR unknown command 'SENTINEL'")
        for _ in 0..<200 { node.reply(to: "SENTINEL", "-ERR unknown command 'SENTINEL'") }
        let replica = try Replica(
            ValkeyConfiguration(
                addresses: [node.address], topology: expected.topology, sentinelPrimary: expected.primary))
        try await eventually("the reason is logged") { !replica.log.lines("reason", expected.reason).isEmpty }
        let count = node.count(of: expected.primary == nil ? "HELLO" : "SENTINEL")
        try await eventually("it is tried again") {
            node.count(of: expected.primary == nil ? "HELLO" : "SENTINEL") > count + 1
        }
        let lines = replica.log.lines("reason", expected.reason)
        expect(lines.count, equals: 1)
        expect(lines.first?["hint"]?.hasPrefix(expected.hint), equals: true, "\(lines)")
        expect(!replica.changes.isUp)
        await replica.stop()
        await node.stop()
    }

    @Test("A single server gets no questions about a topology, and all slots have one link")
    func single() async throws {
        for topology in [ValkeyConfiguration.Topology.auto, .single] {
            let node = try await ScriptedNode(mode: "standalone")
            let replica = try await Replica.up(
                ValkeyConfiguration(addresses: [node.address], topology: topology, replicas: 0))
            let keys = (0..<100).map { ValkeyCommand("GET", key: "key\($0)") }
            let replies = await replica.records.link.send(keys)
            expect(replies.allSatisfy { $0 == .success(.integer(Int64(node.port))) })
            expect(node.count(of: "CLUSTER"), equals: 0)
            expect(node.count(of: "HELLO"), equals: 1)
            expect(node.count(of: "CLIENT"), equals: 1)
            await replica.stop()
            await node.stop()
        }
    }

    @Test("The mode is that of HELLO in both protocols")
    func modes() {
        let flat = ["server", "redis", "mode", "sentinel"].map { RESPValue.simple($0) }
        expect(ValkeyServerMode(hello: .array(flat)), equals: .sentinel)
        expect(ValkeyServerMode(hello: .map([.simple("mode"), .simple("cluster")])), equals: .cluster)
        for odd in [RESPValue.null, .array([]), .array([.simple("mode")]), .map([]), .simple("OK")] {
            expect(ValkeyServerMode(hello: odd), equals: .unknown)
        }
    }

    @Test("Every mismatch has words that name a key to change")
    func words() {
        let all: [ValkeyTopologyMismatch] = [
            .clusterForSingle, .clusterForSentinel, .singleForCluster, .sentinelForServer, .serverForSentinel,
        ]
        for mismatch in all { expect(mismatch.description.contains("session.valkey.")) }
        expect(ValkeyTopologyMismatch.tooManyPrimaries(200).description.contains("200"))
        expect(ValkeyDisconnectReason.wrongTopology(.clusterForSingle).kind, equals: "wrong_topology")
        expect(ValkeyDisconnectReason.unreachable.advice, equals: nil)
    }
}
