import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomSessions

@Suite("Server outages", .serialized, .timeLimit(.minutes(3)))
struct ValkeyOutageTests {
    // Limits here only end waits that would never end, on a machine that may be busy. Benchmarks/endurance.py replicas
    // measures the actual times.
    private static let soon = Duration.seconds(20)
    private static let atOnce = Duration.milliseconds(500)

    @Test("A hanging server is detected within the timeout and 500 ms, and no command waits longer")
    func frozen() async throws {
        try await withRedis { server in
            let replica = try await Replica.up(ValkeyConfiguration(addresses: [server.address]))
            server.freeze()
            let began = ContinuousClock.now
            await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            #expect(ContinuousClock.now - began < Self.soon)
            try await replica.isDown()
            // The disconnect is reported before any command fails, and from now on no command waits.
            var fastest = Self.soon
            for _ in 0..<20 where fastest >= Self.atOnce {
                let later = ContinuousClock.now
                await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
                fastest = min(fastest, ContinuousClock.now - later)
            }
            #expect(fastest < Self.atOnce)
            server.thaw()
            try await replica.isUp()
            try await expect(replica.records.read(SessionID(1)), equals: .none)
            expect(replica.log.lines("reason", "timeout").count, equals: 1)
            await replica.stop()
        }
    }

    @Test("kill -9 and a restart lose no acknowledged write; the store reconnects")
    func persistence() async throws {
        try await withReplica(RedisServer.Options(isPersistent: true)) { replica, server in
            for number in UInt64(1)...200 { try await expect(replica.records.insert(.sample(number))) }
            await server.kill()
            try await replica.isDown()
            await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            try await server.start()
            try await replica.isUp()
            for number in UInt64(1)...200 {
                try await expect(replica.records.read(SessionID(number)), equals: .record(.sample(number)))
            }
            try await expect(replica.records.records(in: .account(7), now: SessionRecord.start).count, equals: 200)
            expect(replica.changes.events, equals: [.up, .down, .up])
            expect(replica.log.lines("message", "connected to the session store").count, equals: 2)
            expect(replica.log.lines("reason", "unreachable").count, equals: 1)
        }
    }

    @Test("Commands in flight when the server died have failed, with an unknown outcome")
    func dyingServer() async throws {
        try await withReplica { replica, server in
            server.freeze()
            let calls = (1...100).map { number in
                Task { try await replica.records.insert(.sample(UInt64(number))) }
            }
            await server.kill()
            for call in calls {
                await #expect(throws: SessionStoreError(.unavailable)) { try await call.value }
            }
        }
    }

    @Test("A store that is unreachable at the start is logged once, and connects when it is available")
    func absentAtStart() async throws {
        let port = try FreePort.next()
        let replica = try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
        try await eventually("the reason is logged") { !replica.log.lines("reason", "unreachable").isEmpty }
        await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
        try await withRedis(port: port) { _ in
            try await replica.isUp()
            // The server may have been replaced in the meantime.
            expect(replica.changes.isAfterOutage)
            expect(replica.log.lines("reason", "unreachable").count, equals: 1)
            expect(replica.log.lines("reason", "unreachable").first?["address"], equals: "127.0.0.1:\(port)")
        }
        await replica.stop()
    }

    @Test("An outage causes no reconnect storm: attempts back off with jitter")
    func attempts() async throws {
        let count = Mutex(0)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                count.withLock { $0 += 1 }
                return channel.close()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try require(listener.localAddress?.port)
        let replicas = try (0..<10).map { _ in
            try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
        }
        // Delays of at most 50, 100, 200, 400, 800, 1,600, ... ms, half of it on average: about six attempts each in 3
        // s. A client without delays would make thousands.
        let began = ContinuousClock.now
        try await eventually("each has tried three times") { count.withLock { $0 } >= 30 }
        try await Task.sleep(until: began + .seconds(3), clock: .continuous)
        let attempts = count.withLock { $0 }
        #expect(attempts <= 600, "\(attempts) attempts of 10 gateways in 3 s")
        for replica in replicas { await replica.stop() }
        try await listener.close()
    }

    @Test("Delays double up to 5 s with full jitter, and start again after an established connection")
    func backoff() {
        var generator = SeededGenerator(seed: 1)
        var delay = ReconnectDelay()
        var limit = Duration.milliseconds(50)
        for _ in 0..<20 {
            let wait = delay.next(using: &generator)
            expect(wait >= .zero && wait <= limit)
            limit = min(limit * 2, .seconds(5))
        }
        expect((0..<50).contains { _ in delay.next(using: &generator) > .seconds(2) })
        delay.connectionEnded(after: .seconds(1))
        expect((0..<50).contains { _ in delay.next(using: &generator) > .seconds(2) })
        delay.connectionEnded(after: .seconds(5))
        #expect(delay.next(using: &generator) <= .milliseconds(50))
    }

    @Test("A server that violates the protocol is disconnected")
    func nonsense() async throws {
        try await RawServer.run { port, server in
            let replica = try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
            let peer = try await server.peer()
            _ = try await peer.text(1)
            // As a web server would respond.
            peer.send("HTTP/1.1 400 Bad Request\r\n\r\n")
            try await eventually("the reason is logged") { !replica.log.lines("reason", "protocol_error").isEmpty }
            expect(!replica.changes.events.contains(.up))
            await replica.stop()
        }
    }
}
