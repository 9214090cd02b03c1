import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Sentinels", .serialized, .timeLimit(.minutes(3)))
struct ValkeySentinelTests {
    /// A primary, its replica, and a sentinel that replaces the one by the other.
    private func withSentinel(
        _ configuration: String..., test: (RedisServer, RedisServer, RedisServer) async throws -> Void
    ) async throws {
        try await withRedis(RedisServer.Options(configuration: configuration)) { primary in
            let following = RedisServer.Options(configuration: ["replicaof 127.0.0.1 \(primary.port)"] + configuration)
            let watching = RedisServer.Options.watching(
                primary, "sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 2000")
            try await withRedis(following) { replica in
                try await withRedis(watching) { try await test(primary, replica, $0) }
            }
        }
    }

    @Test("The primary is found by its name, and found again after a failover, with its sessions")
    func failover() async throws { try await withSentinel { try await failover(from: $0, to: $1, sentinel: $2) } }

    private func failover(from primary: RedisServer, to replica: RedisServer, sentinel: RedisServer) async throws {
        let absent = try FreePort.next()
        // One listed sentinel does not exist, which has no effect.
        let configuration = ValkeyConfiguration(
            addresses: [HostAndPort(host: "127.0.0.1", port: absent), sentinel.address], sentinelPrimary: "main")
        let gateway = try await Replica.up(configuration)
        expect(!gateway.log.lines("address", "\(primary.address)").isEmpty)
        try await expect(gateway.records.insert(.sample()))
        try await eventually("the replica has it") {
            try await replica.ask("EXISTS", .text(gateway.records.keys.session(SessionID(1)))) == .integer(1)
        }
        try await eventually("the sentinel knows the replica") {
            try await sentinel.ask("SENTINEL", "REPLICAS", "main").elements?.count == 1
        }
        await primary.kill()
        try await gateway.isDown()
        try await gateway.isUp()
        expect(!gateway.log.lines("address", "\(replica.address)").isEmpty)
        try await expect(gateway.records.read(SessionID(1)), equals: .record(.sample()))
        try await expect(gateway.records.insert(.sample(2)))
        await gateway.stop()
    }

    @Test("Rule 76: a primary that only the sentinels cannot reach is left when they have replaced it")
    func separated() async throws {
        try await withSentinel("user gate on >canary-password ~* &* +@all") {
            try await separate($0, $1, sentinel: $2)
        }
    }

    private func separate(_ primary: RedisServer, _ replica: RedisServer, sentinel: RedisServer) async throws {
        let configuration = ValkeyConfiguration(
            addresses: [sentinel.address], sentinelPrimary: "main", user: "gate", password: Secret("canary-password"))
        let gateway = try await Replica.up(configuration)
        try await expect(gateway.records.insert(.sample()))
        try await eventually("the replica has it") {
            try await replica.ask("EXISTS", .text(gateway.records.keys.session(SessionID(1)))) == .integer(1)
        }
        try await eventually("the sentinel knows the replica") {
            try await sentinel.ask("SENTINEL", "REPLICAS", "main").elements?.count == 1
        }
        // The sentinel and the replica are users without a password; the gateway is another user.
        let connection = try await ValkeyConnection.connect(
            host: "127.0.0.1", port: primary.port,
            options: ValkeyConnection.Options(timeout: .seconds(10), disconnectCodes: []),
            on: MultiThreadedEventLoopGroup.singleton.any())
        _ = await connection.send([
            ValkeyCommand("ACL", "SETUSER", "default", "off"), ValkeyCommand("CLIENT", "KILL", "USER", "default"),
        ])
        connection.close(.closed)
        try await eventually("the primary is not used any more") { !gateway.log.lines("reason", "replaced").isEmpty }
        try await eventually("the new primary is used") {
            !gateway.log.lines("address", "\(replica.address)").isEmpty
        }
        try await gateway.isUp()
        let other = try await Replica.up(configuration)
        let removal = try await other.records.remove(
            SessionID(1), reason: .revoked, condition: nil, now: SessionRecord.start)
        expect(removal != .notFound)
        try await expect(gateway.records.read(SessionID(1)), equals: .ended(.revoked))
        await other.stop()
        await gateway.stop()
    }

    @Test("Rule 76: a server that the sentinels have replaced is not used any more, also if it still runs")
    func replacedPrimary() async throws {
        try await withRedis { old in
            try await withRedis { new in
                try await withRedis(.watching(old)) { try await replace(old, by: new, sentinel: $0) }
            }
        }
    }

    private func replace(_ old: RedisServer, by new: RedisServer, sentinel: RedisServer) async throws {
        let gateway = try await Replica.up(ValkeyConfiguration(addresses: [sentinel.address], sentinelPrimary: "main"))
        try await expect(gateway.records.insert(.sample()))
        try await sentinel.ask("SENTINEL", "REMOVE", "main")
        try await sentinel.ask("SENTINEL", "MONITOR", "main", "127.0.0.1", .text("\(new.port)"), "1")
        try await eventually("the new one is used") { !gateway.log.lines("address", "\(new.address)").isEmpty }
        try await gateway.isUp()
        expect(!gateway.log.lines("reason", "replaced").isEmpty)
        // Written again.
        try await expect(gateway.records.read(SessionID(1)), equals: .record(.sample()))
        await gateway.stop()
    }

    @Test("A name unknown to the sentinels is not a primary")
    func unknownName() async throws {
        let options = RedisServer.Options(program: "redis-sentinel")
        try await withRedis(options) { sentinel in
            let configuration = ValkeyConfiguration(addresses: [sentinel.address], sentinelPrimary: "other")
            let gateway = try Replica(configuration)
            try await eventually("the reason is logged") { !gateway.log.lines("reason", "no_primary").isEmpty }
            expect(!gateway.changes.events.contains(.up))
            await gateway.stop()
        }
    }

    @Test("A replica is not written to: the store waits for a primary")
    func replicaInstead() async throws {
        try await withReplica { gateway, server in
            try await server.ask("REPLICAOF", "127.0.0.1", "1")
            // A write is rejected, so the connection is unusable.
            await #expect(throws: SessionStoreError(.unavailable)) { try await gateway.records.insert(.sample()) }
            try await gateway.isDown()
            try await eventually("the reason is logged") { !gateway.log.lines("reason", "readonly").isEmpty }
            try await server.ask("REPLICAOF", "NO", "ONE")
            try await gateway.isUp()
            try await expect(gateway.records.insert(.sample()))
        }
    }
}
