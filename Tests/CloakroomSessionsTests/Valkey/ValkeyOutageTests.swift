import CloakroomCore
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import CloakroomSessions

@Suite("Outages of the server", .serialized, .timeLimit(.minutes(3)))
struct ValkeyOutageTests {
    // Bounds here are there to end what waits without end, on a machine that is busy with other things. How long it takes
    // is measured by Benchmarks/endurance.py replicas.
    private static let soon = Duration.seconds(6)
    private static let atOnce = Duration.milliseconds(500)

    @Test("A server that hangs is noticed within the timeout and half a second, and nothing waits longer")
    func frozen() async throws {
        try await withRedis { server in
            let replica = try await Replica.up(server)
            server.freeze()
            let began = ContinuousClock.now
            await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            #expect(ContinuousClock.now - began < Self.soon)
            try await replica.isDown()
            // Down is said before anybody hears that a command failed, and from now on nothing waits.
            let later = ContinuousClock.now
            await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            #expect(ContinuousClock.now - later < Self.atOnce)
            server.thaw()
            try await replica.isUp()
            #expect(try await replica.records.read(SessionID(1)) == .none)
            #expect(replica.log.lines("reason", "timeout").count == 1)
            await replica.stop()
        }
    }

    @Test("A server that hangs is noticed when nobody asks it for anything")
    func frozenWhileIdle() async throws {
        try await withRedis { server in
            let replica = try await Replica.up(server)
            server.freeze()
            let began = ContinuousClock.now
            let told = try await replica.changes.waits(for: .down)
            #expect(told - began < Self.soon)
            server.thaw()
            await replica.stop()
        }
    }

    @Test("kill -9 and a restart lose nothing that was acknowledged; the link comes back")
    func persistence() async throws {
        try await withRedis(RedisServer.Options(isPersistent: true)) { server in
            let replica = try await Replica.up(server)
            for number in UInt64(1)...200 { #expect(try await replica.records.insert(.sample(number))) }
            await server.kill()
            try await replica.isDown()
            await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
            try await server.start()
            try await replica.isUp()
            for number in UInt64(1)...200 {
                #expect(try await replica.records.read(SessionID(number)) == .record(.sample(number)))
            }
            #expect(try await replica.records.records(of: 7, now: SessionRecord.start).count == 200)
            #expect(replica.changes.events == [.up, .down, .up])
            #expect(replica.log.lines("message", "connected to the session store").count == 2)
            #expect(replica.log.lines("reason", "unreachable").count == 1)
            await replica.stop()
        }
    }

    @Test("Commands that were sent when the server died have failed: whether they were done is not known")
    func dyingServer() async throws {
        try await withRedis { server in
            let replica = try await Replica.up(server)
            server.freeze()
            let calls = (1...100).map { number in
                Task { try await replica.records.insert(.sample(UInt64(number))) }
            }
            await server.kill()
            for call in calls {
                await #expect(throws: SessionStoreError(.unavailable)) { try await call.value }
            }
            await replica.stop()
        }
    }

    @Test("A store that cannot be reached at the start says so once, and connects when it is there")
    func absentAtStart() async throws {
        let port = try await RedisServer.freePort()
        let replica = try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
        try await eventually("it says so") { !replica.log.lines("reason", "unreachable").isEmpty }
        await #expect(throws: SessionStoreError(.unavailable)) { try await replica.records.read(SessionID(1)) }
        try await withRedis(port: port) { _ in
            try await replica.isUp()
            #expect(replica.log.lines("reason", "unreachable").count == 1)
            #expect(replica.log.lines("reason", "unreachable").first?["address"] == "127.0.0.1:\(port)")
        }
        await replica.stop()
    }

    @Test("An outage makes no storm: attempts become rarer, at random")
    func attempts() async throws {
        let count = Mutex(0)
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                count.withLock { $0 += 1 }
                return channel.close()
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let replicas = try (0..<10).map { _ in
            try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
        }
        // Waits of at most 50, 100, 200, 400, 800, 1,600, ... ms, half of it on average: some six attempts each in 3 s.
        // Who tried without waiting would do so thousands of times.
        let began = ContinuousClock.now
        try await eventually("each has tried three times") { count.withLock { $0 } >= 30 }
        try await Task.sleep(until: began + .seconds(3), clock: .continuous)
        let attempts = count.withLock { $0 }
        #expect(attempts <= 600, "\(attempts) attempts of 10 gateways in 3 s")
        for replica in replicas { await replica.stop() }
        try await listener.close()
    }

    @Test("Waits double up to 5 s, lie anywhere below, and begin anew after a link that stood")
    func backoff() {
        var generator = SeededGenerator(seed: 1)
        var backoff = ExponentialBackoff()
        var limit = ExponentialBackoff.first
        for _ in 0..<20 {
            let wait = backoff.next(using: &generator)
            #expect(wait >= .zero && wait <= limit)
            limit = min(limit * 2, .seconds(5))
        }
        #expect((0..<50).contains { _ in backoff.next(using: &generator) > .seconds(2) })
        backoff.connectionEnded(after: .seconds(1))
        #expect((0..<50).contains { _ in backoff.next(using: &generator) > .seconds(2) })
        backoff.connectionEnded(after: .seconds(5))
        #expect(backoff.next(using: &generator) <= .milliseconds(50))
    }

    @Test("A server that talks nonsense is left")
    func nonsense() async throws {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(GarbageHandler())
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(listener.localAddress?.port)
        let replica = try Replica(ValkeyConfiguration(addresses: [HostAndPort(host: "127.0.0.1", port: port)]))
        try await eventually("it says so") { !replica.log.lines("reason", "protocol_error").isEmpty }
        #expect(!replica.changes.events.contains(.up))
        await replica.stop()
        try await listener.close()
    }
}

/// Answers as a web server would.
private final class GarbageHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n")), promise: nil)
    }
}
