import CloakroomTelemetry
import Glibc
import Logging
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("A listening socket whose accept calls fail", .serialized)
struct AcceptHandlerTests {
    /// A server that accepts connections and does nothing with them.
    private static func running(
        limit: ConnectionLimit = ConnectionLimit(100), log: RecordedLog = RecordedLog(),
        registry: PrometheusRegistry = PrometheusRegistry(), accepts: Bool = true,
        _ body: (any Channel) async throws -> Void
    ) async throws {
        let logger = log.logger
        let metrics = GatewayMetrics(registry: registry).listeners
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.autoRead, value: accepts)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptHandler(limit: limit, metrics: metrics, logger: logger))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        try await stopping {
            try? await server.close()
        } after: {
            try await body(server)
        }
    }

    private static func isAccepting(_ server: any Channel) async throws -> Bool {
        try await server.getOption(.autoRead).get()
    }

    @Test(
        "Without descriptors or memory accepting pauses briefly and then resumes",
        arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
    func shortage(_ code: CInt) async throws {
        let limit = ConnectionLimit(100)
        try await Self.running(limit: limit) { server in
            let paused = try await server.eventLoop.submit {
                // Several errors in one accept loop.
                for _ in 0..<3 {
                    server.pipeline.fireErrorCaught(IOError(errnoCode: code, reason: "accept"))
                }
                return try server.syncOptions?.getOption(.autoRead)
            }.get()
            expect(paused, equals: false)
            let client = try await RawPeer.connect(port: server.localAddress?.port ?? 0, allowsHalfClosure: false)
            try await eventually("the connection to be accepted") { limit.accepted == 1 }
            try await expect(Self.isAccepting(server))
            try await client.close()
        }
    }

    @Test("Connections to a socket that was bound without accepting wait until it begins")
    func begin() async throws {
        let limit = ConnectionLimit(100)
        try await Self.running(limit: limit, accepts: false) { server in
            let client = try await RawPeer.connect(port: server.localAddress?.port ?? 0, allowsHalfClosure: false)
            try await server.eventLoop.submit {}.get()
            expect(limit.accepted, equals: 0)
            await ListeningSocket(channel: server, predecessors: [], isInherited: false).accept()
            try await eventually("the connection to be accepted") { limit.accepted == 1 }
            try await client.close()
        }
    }

    @Test("A connection that was aborted in the listen queue has no effect")
    func lostConnection() async throws {
        try await Self.running { server in
            server.pipeline.fireErrorCaught(IOError(errnoCode: ECONNABORTED, reason: "accept"))
            let isAccepting = try await Self.isAccepting(server)
            expect(isAccepting)
        }
    }

    @Test("The end of a shortage does not resume accepting at the connection limit")
    func shortageAtLimit() async throws {
        let limit = ConnectionLimit(1)
        try await Self.running(limit: limit) { server in
            let client = try await RawPeer.connect(port: server.localAddress?.port ?? 0, allowsHalfClosure: false)
            try await eventually("the limit") { limit.isFull }
            try await server.eventLoop.submit {
                server.pipeline.fireErrorCaught(IOError(errnoCode: EMFILE, reason: "accept"))
            }.get()
            // Longer than the pause after a shortage.
            try await server.eventLoop.scheduleTask(in: AcceptHandler.backoff * 2) {}.futureResult.get()
            try await expect(!Self.isAccepting(server))
            try await client.close()
            try await eventually("room") { try await Self.isAccepting(server) }
        }
    }

    @Test("A pause at the limit is logged once per 10 s, counted and shown until connections are accepted again")
    func pauseAtLimit() async throws {
        let limit = ConnectionLimit(1)
        let log = RecordedLog()
        let registry = PrometheusRegistry()
        func exposes(_ line: String) -> Bool {
            String(decoding: registry.exposition(), as: UTF8.self).contains(line + "\n")
        }
        try await Self.running(limit: limit, log: log, registry: registry) { server in
            for pause in 1...2 {
                let client = try await RawPeer.connect(port: server.localAddress?.port ?? 0, allowsHalfClosure: false)
                try await eventually("the pause") { exposes("cloakroom_accept_paused_listeners 1") }
                expect(exposes(#"cloakroom_accept_pauses_total{reason="limit"} \#(pause)"#))
                try await client.close()
                try await eventually("room") { exposes("cloakroom_accept_paused_listeners 0") }
            }
        }
        expect(exposes(#"cloakroom_accept_pauses_total{reason="resources"} 0"#))
        let lines = log.lines("event", "accept_paused")
        expect(lines.count, equals: 1)
        expect(lines.first?["reason"], equals: "limit")
        expect(lines.first?["limit"], equals: "1")
        expect(lines.first?["level"], equals: "warning")
    }
}
