import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Writes that replicas of the server confirm", .serialized, .timeLimit(.minutes(3)))
struct DurableWriterTests {
    /// A writer that is running, with its counts and its log.
    private struct Running: Sendable {
        let writer: DurableWriter
        let link: ValkeyConnection
        let log: RecordedLog
        let unconfirmed: Recorded<Int>

        func set(_ key: String) async -> Bool {
            await writer.send([ValkeyCommand("SET", .text(key), "1")]) == [.success(.simple("OK"))]
        }

        func logged(_ message: String) async throws {
            try await eventually(message) { !log.lines("message", message).isEmpty }
        }
    }

    private static func connection(to server: RedisServer) async throws(ValkeyDisconnectReason) -> ValkeyConnection {
        try await ValkeyConnection.connect(
            host: "127.0.0.1", port: server.port,
            options: ValkeyConnection.Options(
                timeout: .seconds(10), tls: nil, serverName: nil, disconnectCodes: ["READONLY"]),
            on: MultiThreadedEventLoopGroup.singleton.any())
    }

    private func withWriter(
        _ server: RedisServer, replicationTimeout: Duration = .seconds(10),
        reportInterval: Duration = .milliseconds(50), isConnecting: Bool = true,
        _ body: (Running) async throws -> Void
    ) async throws {
        let (log, unconfirmed) = (RecordedLog(), Recorded<Int>())
        let link = try await Self.connection(to: server)
        let writer = DurableWriter(
            DurableWriter.Options(
                replicas: 1, replicationTimeout: replicationTimeout, timeout: .seconds(10),
                reportInterval: reportInterval),
            link: link,
            log: DurabilityLog(log.logger, SessionStoreCallbacks(onUnconfirmedWrites: { unconfirmed.append($0) }))
        ) { () async throws(ValkeyDisconnectReason) in
            guard isConnecting else { throw .unreachable }
            return try await Self.connection(to: server)
        }
        let running = Task { await writer.run() }
        defer {
            running.cancel()
            link.close(.closed)
        }
        try await body(Running(writer: writer, link: link, log: log, unconfirmed: unconfirmed))
    }

    /// Starts a primary and a replica, and waits until the primary counts the replica as connected: a writer asks for
    /// replicas when it connects, and then only at its interval.
    private func withReplica(_ body: (RedisServer, RedisServer) async throws -> Void) async throws {
        try await withRedis(Self.primary) { primary in
            try await withRedis(RedisServer.Options(configuration: ["replicaof 127.0.0.1 \(primary.port)"])) {
                replica in
                try await eventually("the primary has a replica") {
                    ReplicaConfirmation.replicaCount(try await primary.ask("ROLE")) == 1
                }
                try await body(primary, replica)
            }
        }
    }

    /// A primary that does not wait for further replicas before it sends its data: 5 s otherwise.
    private static let primary = RedisServer.Options(configuration: ["repl-diskless-sync-delay 0"])

    @Test("A write is acknowledged when the replica has it")
    func confirmed() async throws {
        try await withReplica { primary, replica in
            try await withWriter(primary) { running in
                try await eventually("the replica is connected") { running.writer.awaitedReplicas == 1 }
                for number in 1...50 {
                    await expect(running.set("key\(number)"))
                    try await expect(replica.ask("GET", .text("key\(number)")).text, equals: "1")
                }
                expect(running.unconfirmed.sum, equals: 0)
            }
        }
    }

    @Test("Concurrent writers get their own replies, and share the waits")
    func batches() async throws {
        try await withReplica { primary, _ in
            try await withWriter(primary) { running in
                try await eventually("the replica is connected") { running.writer.awaitedReplicas == 1 }
                let right = await withTaskGroup(of: Bool.self) { group in
                    for number in 1...2_000 {
                        group.addTask {
                            let command = ValkeyCommand("INCRBY", "key\(number)", .integer(Int64(number)))
                            return await running.writer.send([command]) == [.success(.integer(Int64(number)))]
                        }
                    }
                    return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
                }
                expect(right, equals: 2_000)
                expect(running.unconfirmed.sum, equals: 0)
                #expect(try await require(primary.calls()["wait"]) < 2_000)
            }
        }
    }

    @Test("A replica that hangs delays a write by the time limit, three times; then no write waits")
    func frozenReplica() async throws {
        try await withReplica { primary, replica in
            try await withWriter(
                primary, replicationTimeout: .milliseconds(200), reportInterval: .seconds(60)
            ) { running in
                try await eventually("the replica is connected") { running.writer.awaitedReplicas == 1 }
                replica.freeze()
                for number in 1...3 {
                    expect(running.writer.awaitedReplicas, equals: 1)
                    let began = ContinuousClock.now
                    await expect(running.set("key\(number)"))
                    #expect(ContinuousClock.now - began >= .milliseconds(200))
                    expect(running.unconfirmed.sum, equals: number)
                }
                expect(running.writer.awaitedReplicas, equals: 0)
                await expect(running.set("key4"))
                expect(running.unconfirmed.sum, equals: 4)
                let lines = running.log.lines("message", "session store replicas did not confirm a write in time")
                expect(lines.count, equals: 1)
                expect(lines.first?["confirmed"], equals: "0")
                replica.thaw()
            }
        }
    }

    @Test("Without a replica no write waits; each is counted, until a replica is connected")
    func noReplica() async throws {
        try await withRedis(Self.primary) { primary in
            try await withWriter(primary) { running in
                try await running.logged("session store has no connected replica")
                expect(running.writer.awaitedReplicas, equals: 0)
                for number in 1...3 { await expect(running.set("key\(number)")) }
                expect(running.unconfirmed.sum, equals: 3)
                let options = RedisServer.Options(configuration: ["replicaof 127.0.0.1 \(primary.port)"])
                try await withRedis(options) { replica in
                    try await running.logged("session store has a connected replica again")
                    expect(running.writer.awaitedReplicas, equals: 1)
                    await expect(running.set("key4"))
                    try await expect(replica.ask("EXISTS", "key4"), equals: .integer(1))
                    expect(running.unconfirmed.sum, equals: 3)
                    // Before the replica ends, which is another change.
                    expect(running.log.lines("message", "session store has no connected replica").count, equals: 1)
                }
            }
        }
    }

    @Test("A server with fewer replicas than required is logged once for each change, and so is its end")
    func shortfalls() {
        let recorded = RecordedLog()
        let log = DurabilityLog(recorded.logger, SessionStoreCallbacks())
        for connected in [2, 1, 1, 1, 0, 0, 1, 2, 2, 3, 1] { log.replicas("a:1", required: 2, connected: connected) }
        log.replicas("b:1", required: 1, connected: 0)
        for _ in 1...2 { log.replicas("b:1", required: 1, connected: 1) }
        let few = recorded.lines("message", "session store has too few connected replicas")
        expect(few.map { $0["connected"] }, equals: ["1", "1", "1"])
        expect(few.allSatisfy { $0["address"] == "a:1" && $0["required"] == "2" })
        expect(few.allSatisfy { $0["hint"]?.contains("session.valkey.replicas") == true })
        let none = recorded.lines("message", "session store has no connected replica")
        expect(none.map { $0["address"] }, equals: ["a:1", "b:1"])
        expect(recorded.lines("message", "session store has enough connected replicas again").count, equals: 1)
        expect(recorded.lines("message", "session store has a connected replica again").count, equals: 1)
    }

    @Test("A server that rejects the wait is reported with a remedy, and its writes succeed")
    func rejectedWait() async throws {
        let options = RedisServer.Options(configuration: ["user default on nopass ~* &* +@all -wait -role"])
        try await withRedis(options) { server in
            try await withWriter(server, reportInterval: .seconds(60)) { running in
                try await eventually("the writer is connected") { running.writer.awaitedReplicas == 1 }
                await expect(running.set("key1"))
                expect(running.writer.awaitedReplicas, equals: 0)
                await expect(running.set("key2"))
                expect(running.unconfirmed.sum, equals: 2)
                let lines = running.log.lines("command", "WAIT")
                expect(lines.count, equals: 1)
                expect(lines.first?["reason"], equals: "noperm")
                expect(lines.first?["hint"]?.contains("wait"), equals: true)
            }
        }
    }

    @Test("Without a second connection, writes go over the first")
    func noSecondConnection() async throws {
        try await withRedis { server in
            try await withWriter(server, isConnecting: false) { running in
                try await running.logged("session store accepts no second connection")
                await expect(running.set("key1"))
                expect(running.unconfirmed.sum, equals: 1)
            }
        }
    }

    @Test("A write in flight when the server dies has failed, and is not sent again")
    func dyingServer() async throws {
        try await withReplica { primary, _ in
            try await withWriter(primary, reportInterval: .seconds(60)) { running in
                try await eventually("the replica is connected") { running.writer.awaitedReplicas == 1 }
                primary.freeze()
                let write = Task { await running.writer.send([ValkeyCommand("INCR", "key")]) }
                try await Task.sleep(for: .milliseconds(50))
                await primary.kill()
                let reply = await write.value.first
                // Sent with unknown result; or, if the loss was noticed before, not sent.
                expect(reply == .failure(.disconnected) || reply == .failure(.notConnected))
            }
        }
    }

    @Test("A primary that became a replica is noticed without a write, and loses the first connection too")
    func demoted() async throws {
        try await withRedis { server in
            try await withWriter(server) { running in
                try await running.logged("session store has no connected replica")
                try await server.ask("REPLICAOF", "127.0.0.1", "1")
                try await expect(running.link.closed.get(), equals: .notPrimary(code: "READONLY"))
            }
        }
    }

    @Test("Rule 24: what a store has acknowledged, a replica of the server has")
    func store() async throws {
        try await withReplica { primary, replica in
            let configuration = ValkeyConfiguration(
                addresses: [primary.address], replicationTimeout: .seconds(10))
            let gateway = try await Replica.up(configuration)
            let (store, start) = (gateway.records, SessionRecord.start)
            var number: UInt64 = 0
            try await eventually("the store waits for the replica") {
                number += 1
                _ = try await store.insert(.sample(number))
                return try await primary.calls()["wait"] != nil
            }
            for number in UInt64(100_000)...100_020 {
                let id = SessionID(number)
                try await expect(store.insert(.sample(number)))
                try await expect(replica.ask("HGET", .text(store.keys.session(id)), "v").text, equals: "1")
                _ = try await store.lease(id, for: .seconds(30), now: start)
                try await expect(replica.ask("GET", .text(store.keys.lease(id))).text, equals: "1")
                try await expect(store.replace(.sample(number, version: 2), fence: 1, now: start), equals: .done)
                try await expect(replica.ask("HGET", .text(store.keys.session(id)), "v").text, equals: "2")
                _ = try await store.remove(id, reason: .revoked, condition: nil, now: start)
                try await expect(replica.ask("GET", .text(store.keys.ended(id))).text, equals: "revoked")
                let mark = MarkKey(.usedLogin, hash: number)
                try await expect(store.setMark(mark, to: start.wallTime, lifetime: .seconds(60), now: start))
                try await expect(replica.ask("EXISTS", .text(store.keys.mark(mark))), equals: .integer(1))
            }
            await gateway.stop()
        }
    }
}
