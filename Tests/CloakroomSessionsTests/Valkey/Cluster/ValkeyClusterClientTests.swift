import CloakroomCore
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomSessions

/// Keys `b`, `c` and `a` belong to the first, the second and the third server.
@Suite("The client of a cluster", .timeLimit(.minutes(3)))
struct ValkeyClusterClientTests {
    private static let slotOfC = Int(HashSlot.slot(of: "c"))
    private static let timeout = Duration.milliseconds(500)

    @Test(
        "Commands are sent to the servers of their slots, and the replies are in their order",
        arguments: [
            ValkeyConfiguration.Topology.cluster, .auto,
        ])
    func routing(_ topology: ValkeyConfiguration.Topology) async throws {
        try await ScriptedCluster.with(topology: topology, timeout: Self.timeout) { cluster in
            let keys = ["b", "a", "c", "b", "a"]
            let replies = await cluster.client.send(keys.map { ValkeyCommand("GET", key: $0) })
            let ports = [0, 2, 1, 0, 2].map { RESPValue.integer(Int64(cluster.nodes[$0].port)) }
            expect(replies, equals: ports.map { .success($0) })
            expect(cluster.nodes.map { $0.count(of: "GET") }, equals: [2, 1, 2])
            await expect(cluster.client.send([ValkeyCommand("PING")]).first, equals: .success(.simple("PONG")))
            await expect(empty: cluster.client.send([]))
        }
    }

    @Test("MOVED: the command is sent to the other server, and so are the next ones; the slot was not trusted before")
    func moved() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            let (old, new) = (cluster.nodes[1], cluster.nodes[2])
            let before = cluster.trust.events.count
            old.reply(to: "GET", "-MOVED \(Self.slotOfC) 127.0.0.1:\(new.port)")
            await expect(cluster.port("c"), equals: Int64(new.port))
            let slot = Self.slotOfC..<(Self.slotOfC + 1)
            for node in cluster.nodes {
                node.setSlots([
                    (0..<5_461, cluster.nodes[0]), (5_461..<slot.lowerBound, old), (slot, new),
                    (slot.upperBound..<10_923, old), (10_923..<16_384, new),
                ])
            }
            await expect(cluster.port("c"), equals: Int64(new.port))
            expect(old.count(of: "GET"), equals: 1)
            expect(cluster.trust.events.dropFirst(before).first, equals: .lost([slot]))
            expect(cluster.trust.events.contains(.trusted([slot], afterOutage: false)))
        }
    }

    @Test("ASK: only this command is sent to the other server, after ASKING, and the slot is not trusted")
    func ask() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            let (old, new) = (cluster.nodes[1], cluster.nodes[2])
            old.reply(to: "GET", "-ASK \(Self.slotOfC) 127.0.0.1:\(new.port)")
            await expect(cluster.port("c"), equals: Int64(new.port))
            expect(new.commands, equals: [["ASKING"], ["GET", "c"]])
            expect(!cluster.trust.areTrusted(Self.slotOfC..<(Self.slotOfC + 1)))
            await expect(cluster.port("c"), equals: Int64(old.port))
            try await eventually("the slot is trusted again") { cluster.trust.areTrusted(HashSlot.all) }
        }
    }

    @Test("ASK for a durable write: the server that is receiving the slot confirms it, with ASKING directly before it")
    func askDurableConfirmed() async throws {
        let (unconfirmed, log) = (Recorded<Int>(), RecordedLog())
        let callbacks = SessionStoreCallbacks(onUnconfirmedWrites: { unconfirmed.append($0) })
        try await ScriptedCluster.with(
            timeout: Self.timeout, hasReplicas: true, durabilityLog: DurabilityLog(log.logger, callbacks)
        ) { cluster in
            let (old, new) = (cluster.nodes[1], cluster.nodes[2])
            try await eventually("writes of the third server wait for its replica") {
                _ = await cluster.client.send([ValkeyCommand("SET", key: "a", "1")], isDurable: true)
                return new.count(of: "WAIT") > 0
            }
            let (before, counted) = (new.commands.count, unconfirmed.sum)
            old.reply(to: "SET", "-ASK \(Self.slotOfC) 127.0.0.1:\(new.port)")
            let reply = await cluster.client.send([ValkeyCommand("SET", key: "c", "1")], isDurable: true)
            expect(reply, equals: [.success(.integer(Int64(new.port)))])
            expect(Array(new.commands.dropFirst(before)).map { $0[0] }, equals: ["ASKING", "SET", "WAIT"])
            expect(unconfirmed.sum, equals: counted)
            // Without a replica it is one unconfirmed write, not two.
            new.reply(to: "WAIT", ":0")
            old.reply(to: "SET", "-ASK \(Self.slotOfC) 127.0.0.1:\(new.port)")
            _ = await cluster.client.send([ValkeyCommand("SET", key: "c", "1")], isDurable: true)
            expect(unconfirmed.sum, equals: counted + 1)
        }
    }

    @Test(
        "ASK for a durable write to a server without replicas: the write is counted as unconfirmed"
    )
    func askDurable() async throws {
        let (unconfirmed, log) = (Recorded<Int>(), RecordedLog())
        let callbacks = SessionStoreCallbacks(onUnconfirmedWrites: { unconfirmed.append($0) })
        try await ScriptedCluster.with(timeout: Self.timeout, durabilityLog: DurabilityLog(log.logger, callbacks)) {
            cluster in
            let (old, new) = (cluster.nodes[1], cluster.nodes[2])
            old.reply(to: "SET", "-ASK \(Self.slotOfC) 127.0.0.1:\(new.port)")
            let reply = await cluster.client.send([ValkeyCommand("SET", key: "c", "1")], isDurable: true)
            expect(reply, equals: [.success(.integer(Int64(new.port)))])
            expect(new.commands, equals: [["ASKING"], ["SET", "c", "1"]])
            expect(unconfirmed.sum, equals: 1)
        }
    }

    @Test(
        "TRYAGAIN and CLUSTERDOWN: the command is sent again, for a limited time",
        arguments: [
            "-TRYAGAIN Multiple keys request during rehashing of slot", "-CLUSTERDOWN The cluster is down",
        ])
    func again(_ error: String) async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            let node = cluster.nodes[1]
            node.reply(to: "GET", error, error)
            await expect(cluster.port("c"), equals: Int64(node.port))
            expect(node.count(of: "GET"), equals: 3)
            for _ in 0..<100 { node.reply(to: "GET", error) }
            let start = ContinuousClock.now
            let rejection = RESPError(line: String(error.dropFirst()))
            await expect(cluster.get("c"), equals: .failure(.rejected(rejection)))
            #expect(ContinuousClock.now - start < .seconds(15))
            #expect(node.count(of: "GET") <= 3 + RedirectedCommands.maximumAttempts)
            let before = node.count(of: "GET")
            let late = await RedirectedCommands(timeout: .zero).complete(
                [ValkeyCommand("GET", key: "c")],
                [RoutedReply(reply: .failure(.rejected(rejection)), sender: node.address)], isDurable: false,
                using: cluster.client)
            expect(late == [.failure(.rejected(rejection))] && node.count(of: "GET") == before)
        }
    }

    @Test("Another error is a result, and the command is not sent again")
    func otherErrors() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            for error in ["-WRONGTYPE x", "-OOM x", "-MOVED nonsense", "-NOSCRIPT x", "-CROSSSLOT x"] {
                let before = cluster.nodes[1].count(of: "GET")
                cluster.nodes[1].reply(to: "GET", error)
                await expect(cluster.get("c"), equals: .failure(.rejected(RESPError(line: String(error.dropFirst())))))
                expect(cluster.nodes[1].count(of: "GET"), equals: before + 1)
            }
        }
    }

    @Test("A lost connection: pending commands fail once the slots are not trusted, and are never sent again")
    func lost() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout, failover: RecordingFailover()) { cluster in
            await cluster.nodes[1].disconnect()
            try await eventually("the slots are not trusted") { !cluster.trust.areTrusted(5_461..<10_923) }
            expect(cluster.trust.areTrusted(0..<5_461))
            await expect(cluster.port("b"), equals: Int64(cluster.nodes[0].port))
            try await cluster.isUp()
            expect(cluster.trust.events.contains(.trusted([5_461..<10_923], afterOutage: true)))
            await expect(cluster.port("c"), equals: Int64(cluster.nodes[1].port))
        }
    }

    @Test("A replaced server: what was lost is written before other commands are sent and slots are trusted")
    func failover() async throws {
        let failover = RecordingFailover()
        try await ScriptedCluster.with(timeout: Self.timeout, failover: failover) { cluster in
            let new = try await ScriptedNode()
            let rows = [(0..<5_461, cluster.nodes[0]), (5_461..<10_923, new), (10_923..<16_384, cluster.nodes[2])]
            for node in [cluster.nodes[0], cluster.nodes[2], new] { node.setSlots(rows) }
            await cluster.nodes[1].stop()
            try await eventually("the new server is used") { await cluster.port("c") == Int64(new.port) }
            expect(new.commands.first, equals: ["SET", "c", "again"])
            expect(failover.slots, equals: [[5_461..<10_923]])
            try await cluster.isUp()
            expect(cluster.trust.events.last, equals: .trusted([5_461..<10_923], afterOutage: true))
            await new.stop()
        }
    }

    @Test("Pushes of all servers are forwarded")
    func pushes() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            for node in cluster.nodes { node.push(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n") }
            try await eventually("the pushes arrive") { cluster.trust.events.count { $0 == .pushed } == 3 }
        }
    }

    @Test("The servers are not asked for the topology by commands")
    func questions() async throws {
        try await ScriptedCluster.with(timeout: Self.timeout) { cluster in
            let before = cluster.nodes[0].count(of: "CLUSTER")
            let start = ContinuousClock.now
            for _ in 0..<500 { _ = await cluster.get("b") }
            let seconds = Int((ContinuousClock.now - start) / .seconds(1))
            #expect(cluster.nodes[0].count(of: "CLUSTER") - before <= 3 + 5 * (seconds + 1))
            expect(cluster.nodes.allSatisfy { $0.count(of: "HELLO") <= 2 })
        }
    }
}

/// Writes one key again.
private final class RecordingFailover: ValkeyFailoverDelegate {
    private let recorded = Recorded<[Range<Int>]>()

    var slots: [[Range<Int>]] { recorded.all }

    func serverReplaced(
        _ slots: [Range<Int>],
        send: @escaping @Sendable ([ValkeyCommand]) async -> [Result<RESPValue, ValkeyCommandError>]
    ) async {
        recorded.append(slots)
        _ = await send([ValkeyCommand("SET", key: "c", "again")])
    }
}
