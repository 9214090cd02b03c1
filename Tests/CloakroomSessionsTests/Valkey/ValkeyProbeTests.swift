import NIOSSL
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("The probe of the store's servers", .serialized, .timeLimit(.minutes(3)))
struct ValkeyProbeTests {
    private func finding(_ configuration: ValkeyConfiguration) async throws -> ValkeyProbe.Finding {
        try await require(ValkeyProbe(configuration, tls: nil).run().first)
    }

    @Test("A usable server is described, and the probe leaves no key")
    func usable() async throws {
        let user = "user gate on >canary-password \(ValkeyAccessTests.permissions)"
        let options = RedisServer.Options(program: RedisServer.Options.valkey, configuration: [user])
        try await withRedis(options) { server in
            let found = try await finding(
                ValkeyConfiguration(addresses: [server.address], user: "gate", password: Secret("canary-password")))
            expect(found.problem == nil && found.reason == nil)
            let fact = try require(found.facts.first)
            expect(fact.contains("mode standalone") && fact.contains("role master"), "\(fact)")
            try await expect(server.ask("DBSIZE"), equals: .integer(0))
        }
    }

    @Test("Missing permissions are named, and so is a wrong password, which is not printed")
    func access() async throws {
        let permissions = ValkeyAccessTests.permissions.replacing(" +hgetall", with: "").replacing(" +zadd", with: "")
            .replacing(" +wait", with: "")
        let options = RedisServer.Options(configuration: ["user gate on >canary-password \(permissions)"])
        try await withRedis(options) { server in
            var configuration = ValkeyConfiguration(
                addresses: [server.address], user: "gate", password: Secret("canary-password"))
            let lacking = try await finding(configuration)
            expect(lacking.reason, equals: .noPermission)
            expect(lacking.problem, equals: "the user gate lacks permissions: +hgetall +zadd +wait")
            configuration.password = Secret("another-canary")
            let rejected = try await finding(configuration)
            expect(rejected.reason, equals: .noAuth)
            expect(rejected.problem, equals: "the server rejects HELLO with WRONGPASS")
            expect(!"\(rejected)".contains("canary"))
        }
    }

    @Test("The permission for WAIT is required if replicas have to confirm writes")
    func wait() async throws {
        let permissions = ValkeyAccessTests.permissions.replacing(" +wait", with: "")
        let options = RedisServer.Options(configuration: ["user gate on >canary-password \(permissions)"])
        try await withRedis(options) { server async throws in
            var configuration = ValkeyConfiguration(
                addresses: [server.address], user: "gate", password: Secret("canary-password"))
            try await expect(finding(configuration).problem, equals: "the user gate lacks permissions: +wait")
            configuration.replicas = 0
            try await expect(finding(configuration).problem, equals: nil)
        }
    }

    @Test("A server of another kind than the configured one is a wrong topology, in words")
    func topology() async throws {
        try await withRedis { server in
            let asCluster = try await finding(ValkeyConfiguration(addresses: [server.address], topology: .cluster))
            expect(asCluster.reason, equals: .wrongTopology)
            expect(asCluster.advice?.contains("session.valkey.topology"), equals: true)
            let asSentinel = try await finding(
                ValkeyConfiguration(addresses: [server.address], sentinelPrimary: "main"))
            expect(asSentinel.reason, equals: .wrongTopology)
            expect(asSentinel.advice?.contains("sentinelPrimary"), equals: true)
            try await server.ask("REPLICAOF", "127.0.0.1", "1")
            try await expect(finding(ValkeyConfiguration(addresses: [server.address])).reason, equals: .readonly)
        }
        let absent = HostAndPort(host: "127.0.0.1", port: try FreePort.next())
        try await expect(finding(ValkeyConfiguration(addresses: [absent])).reason, equals: .unreachable)
    }

    @Test("Each node of a cluster is tried, and a cluster for a single server is a wrong topology")
    func cluster() async throws {
        var configuration = try await SharedServers.instance.configuration(.cluster)
        let findings = try await ValkeyProbe(configuration, tls: nil).run()
        expect(findings.count, equals: 6)
        for finding in findings {
            expect(finding.problem, equals: nil)
            expect(finding.facts.contains("a cluster with 3 primaries"))
        }
        configuration.topology = .single
        try await expect(finding(configuration).reason, equals: .wrongTopology)
    }

    @Test("A missing permission for the topology of a cluster is named with the others")
    func clusterPermissions() async throws {
        let node = try await ScriptedNode(mode: "cluster")
        let error = "-NOPERM User gate has no permissions to run the 'cluster|slots' command"
        node.reply(to: "CLUSTER", error, error)
        node.reply(to: "ASKING", "-NOPERM User gate has no permissions to run the 'asking' command")
        let found = try await finding(ValkeyConfiguration(addresses: [node.address], topology: .cluster, user: "gate"))
        expect(found.problem, equals: "the user gate lacks permissions: +cluster|slots +asking")
        expect(found.reason, equals: .noPermission)
        await node.stop()
    }

    @Test("A sentinel reports its primary")
    func sentinel() async throws {
        let configuration = try await SharedServers.instance.configuration(.sentinel)
        let found = try await finding(configuration)
        expect(found.problem, equals: nil)
        expect(found.facts.contains { $0.hasPrefix("its primary main is 127.0.0.1:") })
        var other = configuration
        other.sentinelPrimary = "other"
        try await expect(finding(other).problem, equals: "the sentinel does not know the primary, or its address")
    }

    /// A server with the user `gate`, and what a probe finds of it by way of a sentinel: the last finding.
    private func withSentinel(
        permissions: String, _ test: (RedisServer, ValkeyConfiguration) async throws -> Void
    ) async throws {
        let user = "user gate on >canary-password \(permissions)"
        try await withRedis(RedisServer.Options(configuration: [user])) { server in
            try await withRedis(.watching(server)) { sentinel in
                try await test(
                    server,
                    ValkeyConfiguration(
                        addresses: [sentinel.address], sentinelPrimary: "main", user: "gate",
                        password: Secret("canary-password")))
            }
        }
    }

    @Test("The primary that a sentinel names is described as the store's user, and its problems are found")
    func namedPrimary() async throws {
        let permissions = ValkeyAccessTests.permissions.replacing(" +hgetall", with: "")
        try await withSentinel(permissions: permissions) { server, configuration in
            func findings(_ configuration: ValkeyConfiguration) async throws -> [ValkeyProbe.Finding] {
                let findings = try await ValkeyProbe(configuration, tls: nil).run()
                expect(findings.count == 2 && findings[0].problem == nil)
                expect(findings.last?.address, equals: server.address)
                return findings
            }
            let lacking = try await require(findings(configuration).last)
            expect(lacking.facts.first?.contains("mode standalone, role master"), equals: true)
            expect(lacking.problem, equals: "the user gate lacks permissions: +hgetall")
            expect(lacking.reason, equals: .noPermission)
            var other = configuration
            other.password = Secret("another-canary")
            let rejected = try await require(findings(other).last)
            expect(rejected.problem, equals: "the server rejects HELLO with WRONGPASS")
            expect(rejected.reason, equals: .noAuth)
            try await server.ask("ACL", "SETUSER", "gate", "+hgetall")
            try await expect(findings(configuration).last?.problem, equals: nil)
            try await expect(server.ask("DBSIZE"), equals: .integer(0))
            await server.kill()
            let absent = try await require(findings(configuration).last)
            expect(absent.reason, equals: .unreachable)
            expect(absent.advice?.contains("replica-announce-ip"), equals: true)
        }
    }

    @Test("A named primary is tried once, and is of the wrong kind if it is a replica, a sentinel or part of a cluster")
    func namedByAll() async throws {
        let (node, other) = (try await ScriptedNode(mode: "standalone"), try await ScriptedNode(mode: "standalone"))
        let sentinels = [try await ScriptedNode(), try await ScriptedNode(), try await ScriptedNode()]
        for (sentinel, primary) in zip(sentinels, [node, node, other]) { sentinel.setPrimary(primary) }
        let configuration = ValkeyConfiguration(addresses: sentinels.map(\.address), sentinelPrimary: "main")
        let probe = try ValkeyProbe(configuration, tls: nil)
        let findings = await probe.run()
        expect(findings.map(\.address), equals: (sentinels + [node, other]).map(\.address))
        expect(findings.allSatisfy { $0.problem == nil })
        for (mode, hint) in [("cluster", "belongs to a cluster"), ("sentinel", "is a sentinel")] {
            node.setMode(mode)
            let found = try await require(probe.run().first { $0.address == node.address })
            expect(found.reason == .wrongTopology && found.advice?.contains(hint) == true)
        }
        node.reply(to: "HELLO", "%2\r\n+mode\r\n+standalone\r\n+role\r\n+replica")
        let replica = try await require(probe.run().first { $0.address == node.address })
        expect(replica.reason, equals: .readonly)
        for server in sentinels + [node, other] { await server.stop() }
    }

    @Test("A cluster that the gateway does not support is a wrong topology")
    func unsupportedCluster() async throws {
        let node = try await ScriptedNode(mode: "cluster")
        func slots(_ count: Int, host: String) -> String {
            let rows = (0..<count).map { "*3\r\n:\($0)\r\n:\($0)\r\n*2\r\n+\(host)\r\n:\($0 + 1)\r\n" }
            return "*\(count)\r\n" + rows.joined()
        }
        let configuration = ValkeyConfiguration(addresses: [node.address], topology: .cluster)
        node.setSlots(raw: slots(129, host: "h"))
        let large = try await finding(configuration)
        expect(large.reason, equals: .wrongTopology)
        expect(large.advice?.contains("129 primaries: at most 128"), equals: true)
        node.setSlots(raw: slots(128, host: "h"))
        try await expect(finding(configuration).problem, equals: nil)
        node.setSlots(raw: slots(1, host: "?"))
        try await expect(finding(configuration).advice?.contains("cluster-announce-hostname"), equals: true)
        await node.stop()
    }

    /// A scripted server that replies to the commands of a probe.
    private func scripted(
        mode: String = "standalone", _ replies: [String: String], primary: String? = nil
    ) async throws -> ValkeyProbe.Finding {
        let node = try await ScriptedNode(mode: mode)
        for (name, line) in replies { node.reply(to: name, line) }
        let found = try await finding(ValkeyConfiguration(addresses: [node.address], sentinelPrimary: primary))
        await node.stop()
        return found
    }

    @Test("A server that is full, or lacks a command, does not pass")
    func rejections() async throws {
        let full = try await scripted(["HSET": "-OOM command not allowed", "HINCRBY": "-OOM command not allowed"])
        expect(full.problem == "the server rejects hset hincrby with OOM" && full.reason == .full)
        let lacking = try await scripted(["EVALSHA": "-ERR unknown command 'EVALSHA'"])
        expect(lacking.problem == "the server rejects evalsha with ERR" && lacking.reason == .unsupported)
        expect(lacking.advice?.contains("these commands"), equals: true)
        let fresh = try await scripted(["EVALSHA": "-NOSCRIPT No matching script"])
        expect(fresh.problem == nil && fresh.reason == nil)
    }

    @Test("A server that stops responding does not pass")
    func silence() async throws {
        // The reply is incomplete: its aggregate has a further member.
        let found = try await scripted(["DEL": "*2\r\n:1"])
        expect(found.facts.count, equals: 1)
        expect(found.reason == .timeout && found.problem == "no usable connection: timeout")
    }

    @Test("TLS at only one end is named")
    func mixedTLS() async throws {
        // It ignores what is no command, as a server without TLS may.
        let node = try await ScriptedNode()
        let probe = try ValkeyProbe(
            ValkeyConfiguration(addresses: [node.address]), tls: .makeClientConfiguration())
        let found = try await require(probe.run().first)
        expect(found.reason == .timeout && found.advice?.hasPrefix("the port may be without TLS") == true)
        await node.stop()
    }

    @Test("Nothing that a server sends can change the terminal")
    func terminal() async throws {
        let escape = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}"
        let members = ["server", "a\(escape)", "version", "1\(escape)", "mode", "standalone", "role", escape]
        let described = try await scripted(["HELLO": "%4\r\n" + members.map { "+\($0)" }.joined(separator: "\r\n")])
        expect(described.facts, equals: ["a[2J31m 1[2J31m, mode standalone, role [2J31m"])
        let rejecting = try await scripted(["HELLO": "-\(escape) text"])
        expect(rejecting.problem, equals: "the server is not a primary that accepts writes (UNKNOWN)")
        let host = "\(escape)\n  store: ok " + String(repeating: "a", count: 1_000)
        let sentinel = try await scripted(
            mode: "sentinel",
            ["SENTINEL": "*2\r\n$\(host.utf8.count)\r\n\(host)\r\n+6379\(escape)"], primary: "main")
        let fact = try require(sentinel.facts.last)
        expect(fact.hasPrefix("its primary main is [2J31mstore:ok") && fact.hasSuffix("aaa:6379["))
        expect(fact.utf8.count < 300 && fact.utf8.allSatisfy { (0x20...0x7e).contains($0) })
        expect(sentinel.problem, equals: "the sentinel does not know the primary, or its address")
    }
}
