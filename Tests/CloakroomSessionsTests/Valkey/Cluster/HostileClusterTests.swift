import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

/// Servers of a cluster that lie. Keys `b`, `c` and `a` belong to the first, the second and the third server.
@Suite("Hostile servers of a cluster", .timeLimit(.minutes(3)))
struct HostileClusterTests {
    private static let slotOfC = Int(HashSlot.slot(of: "c"))
    private static let invalidation = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"

    private static func row(_ first: Int64, _ last: Int64, _ host: String, _ port: Int64) -> String {
        "*3\r\n:\(first)\r\n:\(last)\r\n*3\r\n$\(host.utf8.count)\r\n\(host)\r\n:\(port)\r\n$2\r\nid\r\n"
    }

    private static func rows(_ rows: String...) -> String { "*\(rows.count)\r\n" + rows.joined() }

    private static func slots(_ reply: String) -> ClusterSlots? {
        var parser = RESPParser()
        parser.append(ByteBuffer(string: reply))
        return (try? parser.next()).flatMap { try? ClusterSlots($0, asked: "asked.test") }
    }

    /// Replies to `CLUSTER SLOTS` that no server sends.
    private static let replies: [(String, String)] = [
        ("1,000,000 rows", "*1000000\r\n*3\r\n"),
        ("too deep", String(repeating: "*1\r\n", count: RESPLimits().depth + 1)),
        (
            "too many servers",
            "*1001\r\n" + (0...1_000).map { row($0, $0, "10.0.\($0 / 250).\($0 % 250)", 1) }.joined()
        ),
        ("one slot per server", "*16384\r\n" + (0..<16_384).map { row($0, $0, "h\($0)", 1) }.joined()),
        ("overlap", rows(row(0, 10, "a", 1), row(10, 20, "b", 1))),
        ("the same row again", rows(row(0, 16_383, "a", 1), row(0, 16_383, "a", 1))),
        ("negative slots", rows(row(-5, 10, "a", 1))),
        ("slots in reverse", rows(row(10, 5, "a", 1))),
        ("slots beyond the last", rows(row(0, 16_384, "a", 1))),
        ("the largest slots", rows(row(.min, .max, "a", 1))),
        ("port 0", rows(row(0, 1, "a", 0))), ("port 65536", rows(row(0, 1, "a", 65_536))),
        ("control characters", rows(row(0, 1, "a\u{1b}[2J", 1))), ("line end", rows(row(0, 1, "a\r\nb", 1))),
        ("zero byte", rows(row(0, 1, "127.0.0.1\u{0}", 1))),
        ("300 characters", rows(row(0, 1, String(repeating: "a", count: 300), 1))),
        ("a server without a name", rows(row(0, 16_383, "?", 1))),
        ("no row", "*1\r\n_\r\n"), ("no array", "+OK\r\n"),
    ]

    @Test("A reply to CLUSTER SLOTS is rejected as a whole, with a reason", arguments: replies.indices)
    func topology(_ index: Int) async throws {
        let (name, reply) = Self.replies[index]
        let start = ContinuousClock.now
        expect(Self.slots(reply), equals: nil, "\(name)")
        #expect(ContinuousClock.now - start < .seconds(10), "\(name)")
    }

    @Test(
        "A server that sends such a reply loses its connection, and only that: it is named in the log",
        arguments: [0, 1, 2, 8, 12, 17, 18])
    func disconnected(_ index: Int) async throws {
        try await ScriptedCluster.with { cluster in
            cluster.nodes[2].setSlots(raw: Self.replies[index].1)
            try await eventually("the reason is logged: \(Self.replies[index].0)") {
                !cluster.log.lines("reason", "protocol_error").isEmpty
            }
            let line = try require(cluster.log.lines("reason", "protocol_error").first)
            expect(line["address"], equals: cluster.nodes[2].address.description)
            expect(line["hint"]?.contains("session.valkey.addresses"), equals: true)
            await expect(cluster.port("b"), equals: Int64(cluster.nodes[0].port))
            await expect(cluster.port("c"), equals: Int64(cluster.nodes[1].port))
        }
    }

    @Test("Servers without a host, and all slots at one server, are valid: what a majority denies is not used")
    func oneServer() async throws {
        let slots = try require(Self.slots(Self.rows(Self.row(0, 16_383, "", 7))))
        expect(slots.owners.allSatisfy { $0 != ClusterSlots.none })
        expect((slots.primaries.count, slots.replicas.count) == (1, 0))
        try await ScriptedCluster.with { cluster in
            let thief = cluster.nodes[2]
            thief.setSlots([(HashSlot.all, thief)])
            let before = thief.count(of: "CLUSTER")
            try await eventually("it has reported") { thief.count(of: "CLUSTER") > before + 1 }
            await expect(cluster.port("b"), equals: Int64(cluster.nodes[0].port))
            await expect(cluster.port("c"), equals: Int64(cluster.nodes[1].port))
            expect(cluster.trust.areTrusted(0..<10_923))
        }
    }

    @Test(
        "A redirection of another slot than the command's is not followed, and changes nothing",
        arguments: ["MOVED", "ASK"])
    func otherSlot(_ kind: String) async throws {
        try await ScriptedCluster.with { cluster in
            let (liar, other) = (cluster.nodes[1], cluster.nodes[2])
            let slot = Self.slotOfC + 1
            for _ in 0..<100 { liar.reply(to: "GET", "-\(kind) \(slot) 127.0.0.1:\(other.port)") }
            let start = ContinuousClock.now
            let error = try await require(cluster.get("c")?.rejection)
            #expect(ContinuousClock.now - start < .seconds(15))
            expect(error.code, equals: kind)
            expect(SessionStoreError.Reason(.rejected(error)), equals: .clusterDown)
            #expect(liar.count(of: "GET") <= RedirectedCommands.maximumAttempts + 1)
            expect(empty: other.commands)
            expect(!cluster.trust.events.contains(.lost([slot..<(slot + 1)])))
        }
    }

    @Test(
        "Servers that redirect to each other in circles: the command fails after a limited number of attempts",
        arguments: [("MOVED", RedirectedCommands.maximumAttempts), ("ASK", RedirectedCommands.maximumAttempts + 1)])
    func circle(_ kind: String, _ mostAttempts: Int) async throws {
        try await ScriptedCluster.with(timeout: kind == "MOVED" ? .milliseconds(500) : .seconds(2)) { cluster in
            let (a, b) = (cluster.nodes[1], cluster.nodes[2])
            for _ in 0..<100 {
                a.reply(to: "GET", "-\(kind) \(Self.slotOfC) 127.0.0.1:\(b.port)")
                b.reply(to: "GET", "-\(kind) \(Self.slotOfC) 127.0.0.1:\(a.port)")
            }
            let error = try await require(cluster.get("c")?.rejection)
            expect(error.code, equals: kind)
            #expect(a.count(of: "GET") + b.count(of: "GET") <= mostAttempts)
        }
    }

    @Test("A server that redirects to itself or to a closed port gets a limited number of attempts")
    func badTargets() async throws {
        try await ScriptedCluster.with { cluster in
            let liar = cluster.nodes[1]
            let closed = try FreePort.next()
            for (kind, port) in [("MOVED", liar.port), ("ASK", liar.port), ("ASK", closed)] {
                let before = liar.count(of: "GET")
                let start = ContinuousClock.now
                for _ in 0..<RedirectedCommands.maximumAttempts + 1 {
                    liar.reply(to: "GET", "-\(kind) \(Self.slotOfC) 127.0.0.1:\(port)")
                }
                let reply = await cluster.get("c")
                #expect(ContinuousClock.now - start < .seconds(15))
                #expect(liar.count(of: "GET") - before <= RedirectedCommands.maximumAttempts + 1)
                if let error = reply?.rejection { expect(error.code, equals: kind) }
                // What is left of the script.
                try await eventually("the server replies again") { await cluster.port("c") == Int64(liar.port) }
            }
        }
    }

    @Test(
        "A redirection to a server without a name leads nowhere: the command is sent again",
        arguments: ["MOVED", "ASK"])
    func unnamedTarget(_ kind: String) async throws {
        try await ScriptedCluster.with { cluster in
            let (node, closed) = (cluster.nodes[1], try FreePort.next())
            node.reply(to: "GET", "-\(kind) \(Self.slotOfC) ?:\(closed)")
            await expect(cluster.port("c"), equals: Int64(node.port))
            expect(cluster.trust.events.contains(.lost([Self.slotOfC..<(Self.slotOfC + 1)])))
            try await cluster.isUp()
            expect(empty: cluster.log.lines("address", "127.0.0.1:\(closed)"))
        }
    }

    @Test("A primary without a name loses its connection, and the log names what to set")
    func unnamedPrimary() async throws {
        try await ScriptedCluster.with { cluster in
            cluster.nodes[2].setSlots(raw: Self.rows(Self.row(0, 16_383, "?", 7)))
            try await eventually("the reason is logged") {
                !cluster.log.lines("reason", "wrong_topology").isEmpty
            }
            let hint = cluster.log.lines("reason", "wrong_topology").first?["hint"]
            expect(hint?.contains("cluster-announce-hostname"), equals: true)
            await expect(cluster.port("b"), equals: Int64(cluster.nodes[0].port))
        }
    }

    @Test(
        "Redirections to thousands of servers open few connections, and the other slots stay trusted",
        arguments: [ClusterRedirection.Kind.moved, .ask])
    func manyTargets(_ kind: ClusterRedirection.Kind) {
        var cluster = ModelCluster.ready()
        var port = 100
        for _ in 0..<60 {
            for slot in 0..<100 {
                port += 1
                switch kind {
                case .moved: cluster.moved(slot, to: port, by: 1)
                case .ask: cluster.asking(slot, to: port, by: 1)
                }
            }
            cluster.advance(.seconds(1))
            #expect(cluster.topology.members.count <= 3 + ClusterTopology.maximumUnconfirmed)
            // It can give away its own slots only.
            expect(cluster.areTrusted(5_461..<16_384))
        }
        let connected = Set(
            cluster.actions.compactMap { action in
                if case .connect(let node) = action { node.address } else { nil }
            })
        #expect(connected.count <= 61 * ClusterTopology.maximumAdditions)
        // The lies end, and what was at the servers that do not exist returns.
        cluster.advance(.seconds(10))
        expect(cluster.areTrusted(HashSlot.all))
        cluster.advance(.seconds(120))
        expect(cluster.topology.members.count, equals: 3)
    }

    @Test("A server that names others in each report uses up no numbers, and changes only its own slots")
    func manyNames() {
        var cluster = ModelCluster.ready()
        cluster.topology.lastID = ClusterTopology.NodeID.max - 30
        for round in 0..<5 {
            let others = (0..<20).map { (5_461 + $0..<5_462 + $0, 1_000 + 20 * round + $0) }
            cluster.report([(0..<5_461, 1)] + others, by: 1)
            cluster.advance(.seconds(2))
            expect(cluster.areTrusted(5_461..<16_384))
        }
        expect((3...1_000).contains(cluster.topology.lastID))
        expect(Set(cluster.topology.ids.values).count, equals: cluster.topology.ids.count)
        expect([5_461, 10_922].allSatisfy { cluster.port(of: $0) == 2 })
        cluster.report(ModelCluster.thirds, by: 1)
        cluster.advance(.seconds(5))
        expect(cluster.areTrusted(HashSlot.all))
        expect(cluster.topology.members.count, equals: 3)
    }

    @Test("Servers to which one primary redirects have no vote: together they cannot take the slots of the others")
    func noMajority() {
        var cluster = ModelCluster()
        cluster.advance(.seconds(1))
        // Accomplices that confirm each other, and claim everything.
        let theft = [(HashSlot.all, 101)]
        cluster.report(theft, by: 1, 101, 102, 103, 104, 105, 106)
        for port in 101...106 { cluster.moved(port, to: port, by: 1) }
        for _ in 0..<40 {
            cluster.advance(.milliseconds(500))
            for port in 101...106 { cluster.moved(port, to: port, by: 1) }
            expect(cluster.areTrusted(5_461..<16_384))
        }
        expect([5_461, 10_922].allSatisfy { cluster.port(of: $0) == 2 })
        expect([10_923, 16_383].allSatisfy { cluster.port(of: $0) == 3 })
    }

    @Test("Invalidations on a connection that is not tracked, the one for durable writes, are ignored")
    func untracked() async throws {
        let log = RecordedLog()
        try await ScriptedCluster.with(durabilityLog: DurabilityLog(log.logger, SessionStoreCallbacks())) { cluster in
            let node = cluster.nodes[1]
            // One of the tracked connection, one of the other, and its first question for replicas.
            try await eventually("both connections are ready") { node.count(of: "ROLE") >= 3 }
            expect(node.count(of: "CLIENT"), equals: 1)
            node.push(Self.invalidation)
            try await eventually("the push arrives") { cluster.trust.events.contains(.pushed) }
            await expect(cluster.port("c"), equals: Int64(node.port))
            let durable = await cluster.client.send([ValkeyCommand("SET", key: "c", "1")], isDurable: true)
            expect(durable, equals: [.success(.integer(Int64(node.port)))])
            try await Task.sleep(for: .milliseconds(50))
            expect(cluster.trust.events.count { $0 == .pushed }, equals: 1)
            expect(cluster.trust.areTrusted(HashSlot.all))
        }
    }

    @Test("100,000 pushes before a reply are processed in linear time, and the reply is that of the command")
    func flood() async throws {
        // The time limit is for this machine, not for the server.
        try await ScriptedCluster.with(timeout: .seconds(60)) { cluster in
            let start = ContinuousClock.now
            cluster.nodes[1].reply(to: "GET", String(repeating: Self.invalidation, count: 100_000) + ":7")
            await expect(cluster.get("c"), equals: .success(.integer(7)))
            #expect(ContinuousClock.now - start < .seconds(40))
            expect(cluster.trust.events.count { $0 == .pushed }, equals: 100_000)
        }
    }

    @Test(
        "A reply that is too large, and one without a command, end the connection, which is established again",
        arguments: ["$16777217\r\n", "+OK\r\n+OK\r\n"])
    func protocolErrors(_ text: String) async throws {
        try await ScriptedCluster.with { cluster in
            let node = cluster.nodes[1]
            node.push(text)
            try await eventually("the reason is logged") {
                !cluster.log.lines("reason", "protocol_error").isEmpty
            }
            await expect(cluster.port("b"), equals: Int64(cluster.nodes[0].port))
            try await eventually("the server is used again") { await cluster.port("c") == Int64(node.port) }
            try await cluster.isUp()
        }
    }

    @Test(
        "A sentinel that names no usable primary is reported, and nothing is connected to",
        arguments: [
            ("", "6379"), ("127.0.0.1\u{0}", "6379"), ("\u{1b}[2J", "6379"),
            (String(repeating: "a", count: 300), "6379"),
            ("127.0.0.1", "0"), ("127.0.0.1", "65536"), ("127.0.0.1", "-1"), ("127.0.0.1", ""),
        ])
    func sentinel(_ host: String, _ port: String) async throws {
        let node = try await ScriptedNode(mode: "sentinel")
        let reply = "*2\r\n$\(host.utf8.count)\r\n\(host)\r\n$\(port.utf8.count)\r\n\(port)"
        for _ in 0..<200 { node.reply(to: "SENTINEL", reply) }
        let replica = try Replica(
            ValkeyConfiguration(addresses: [node.address], topology: .sentinel, sentinelPrimary: "main"))
        try await eventually("the reason is logged") { !replica.log.lines("reason", "no_primary").isEmpty }
        expect(replica.log.lines("reason", "no_primary").first?["hint"]?.contains("sentinelPrimary"), equals: true)
        expect(!"\(replica.log.all)".contains("[2J"))
        await replica.stop()
        await node.stop()
    }
}
