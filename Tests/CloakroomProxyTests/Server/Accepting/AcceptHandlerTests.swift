import Glibc
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("A listening socket that cannot accept", .serialized)
struct AcceptHandlerTests {
    /// A server that accepts, and does nothing with what it accepts.
    private static func running(
        limit: ConnectionLimit = ConnectionLimit(100), _ body: (any Channel) async throws -> Void
    ) async throws {
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptHandler(limit: limit, logger: logger))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let result: Result<Void, any Error>
        do {
            result = .success(try await body(server))
        } catch {
            result = .failure(error)
        }
        try? await server.close()
        try result.get()
    }

    private static func isAccepting(_ server: any Channel) async throws -> Bool {
        try await server.getOption(.autoRead).get()
    }

    @Test(
        "Without descriptors or memory it stops for a moment, and goes on then",
        arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
    func shortage(_ code: CInt) async throws {
        let limit = ConnectionLimit(100)
        try await Self.running(limit: limit) { server in
            let paused = try await server.eventLoop.submit {
                // Several at once, as one round of accepting brings.
                for _ in 0..<3 {
                    server.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
                }
                return try server.syncOptions?.getOption(.autoRead)
            }.get()
            #expect(paused == false)
            let client = try await RawClient.connect(port: server.localAddress?.port ?? 0)
            try await eventually("the connection to be accepted") { limit.accepted == 1 }
            #expect(try await Self.isAccepting(server))
            try await client.close()
        }
    }

    @Test("A connection that was lost in the queue changes nothing")
    func lostConnection() async throws {
        try await Self.running { server in
            server.pipeline.fireErrorCaught(IOError(errnoCode: ECONNABORTED, reason: "accept"))
            let isAccepting = try await Self.isAccepting(server)
            #expect(isAccepting)
        }
    }

    @Test("A shortage that is over does not open what the limit has closed")
    func shortageAtLimit() async throws {
        let limit = ConnectionLimit(1)
        try await Self.running(limit: limit) { server in
            let client = try await RawClient.connect(port: server.localAddress?.port ?? 0)
            try await eventually("the limit") { limit.isFull }
            try await server.eventLoop.submit {
                server.pipeline.fireErrorCaught(IOError(errnoCode: EMFILE, reason: "accept"))
            }.get()
            // Longer than the pause.
            try await server.eventLoop.scheduleTask(in: AcceptHandler.backoff * 2) {}.futureResult.get()
            #expect(try await !Self.isAccepting(server))
            try await client.close()
            try await eventually("room") { try await Self.isAccepting(server) }
        }
    }
}
