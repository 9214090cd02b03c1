import CloakroomTelemetry
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("How a client's connection ends (RFC 9112 §9.6)")
struct ConnectionCloseTests {
    /// A client's connection whose writes complete only when the test allows it.
    private struct Connection {
        let wire = SlowWire()
        let config: ConfigSnapshot
        let handler: HTTP1DownstreamHandler
        private let connection: EmbeddedConnection

        init() throws {
            config = try GatewaySetup().configuration { $0.timeouts.bodyIdle = .seconds(600) }.makeConfig()
            connection = try EmbeddedConnection(config)
            handler = try connection.http1(behind: wire)
        }

        var channel: EmbeddedChannel { connection.channel }
        var context: LoopContext { connection.context }
        func receive(_ text: String) throws { try connection.receive(text) }

        /// The delay until the handler's deadline is reported, in seconds.
        var secondsLeft: Double {
            let now = context.now
            return handler.deadline > now ? Double(handler.deadline - now) / 1e9 : 0
        }
    }

    /// Delays the close operations of a connection.
    private final class SlowWire: ChannelOutboundHandler {
        typealias OutboundIn = ByteBuffer

        /// What was closed.
        private(set) var closed: [CloseMode] = []
        /// Whether the client turns out to be disconnected at the first write.
        var failsToSend = false
        private var held: EventLoopPromise<Void>?

        func flush(context: ChannelHandlerContext) {
            if failsToSend { context.close(promise: nil) } else { context.flush() }
        }

        func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
            closed.append(mode)
            guard mode == .output else { return context.close(mode: mode, promise: promise) }
            held = promise
        }

        /// Completes all writes.
        func sendAll() {
            held?.succeed()
            held = nil
        }
    }

    private let connection: Connection

    init() throws { connection = try Connection() }

    @Test("The last response has the usual body timeout; the short linger time starts after its last byte")
    func lastResponse() throws {
        try connection.receive("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        expect(connection.wire.closed, equals: [.output])
        // It is checked once more before, to measure what the client reads.
        let start = connection.context.now
        while connection.handler.deadline < start + 500_000_000_000 {
            connection.handler.deadlineExpired(now: connection.handler.deadline)
            expect(connection.wire.closed, equals: [.output])
        }
        connection.wire.sendAll()
        #expect(connection.secondsLeft <= 1)
        expect(connection.channel.isActive)
        connection.handler.deadlineExpired(now: connection.context.now)
        expect(connection.wire.closed, equals: [.output, .all])
    }

    @Test("A response to a disconnected client ends its exchange once")
    func goneWhileResponding() throws {
        connection.wire.failsToSend = true
        try connection.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(!connection.channel.isActive)
        expect(connection.context.snapshot.activeCount, equals: 0)
        let metrics = String(decoding: connection.config.telemetry.registry.exposition(), as: UTF8.self)
        expect(metrics.contains("http_server_active_requests{http_request_method=\"GET\",url_scheme=\"http\"} 0\n"))
        let counts = metrics.split(separator: "\n").filter {
            $0.hasPrefix("http_server_request_duration_seconds_count")
        }
        expect(counts.map { $0.split(separator: " ").last }, equals: ["1"])
    }

    @Test("A drain closes an idle connection after its last response is sent, and not before")
    func drain() throws {
        try connection.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        expect(empty: connection.wire.closed)
        var isEmpty = false
        connection.context.drain { isEmpty = true }
        expect(connection.wire.closed, equals: [.output])
        expect(!isEmpty)
        connection.wire.sendAll()
        expect(connection.wire.closed, equals: [.output, .all])
        connection.channel.embeddedEventLoop.run()
        expect(isEmpty)
    }

    @Test("Until the grace of a drain ends, a connection is served one more request", arguments: [true, false])
    func lastRequest(isUsed: Bool) throws {
        if isUsed { try connection.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
        connection.context.drain(grace: 1_000_000_000) {}
        expect(empty: connection.wire.closed)
        expect(connection.handler.deadline, equals: connection.context.now + 1_000_000_000)
        // Its head has the usual header timeout.
        try connection.receive("GET / HTTP/1.1\r\n")
        expect((9...10).contains(connection.secondsLeft))
        try connection.receive("Host: a\r\n\r\n")
        expect(connection.wire.closed, equals: [.output])
    }

    @Test("Without another request, a connection closes when the grace of a drain ends")
    func graceEnds() throws {
        try connection.receive("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.context.drain(grace: 1_000_000_000) {}
        connection.handler.deadlineExpired(now: connection.handler.deadline)
        expect(connection.wire.closed, equals: [.output])
        connection.wire.sendAll()
        expect(connection.wire.closed, equals: [.output, .all])
    }

    @Test("A drain while the remaining body of a rejected request is read ends the connection afterwards")
    func drainWhileDiscarding() throws {
        try connection.receive("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
        connection.context.drain {}
        expect(empty: connection.wire.closed)
        try connection.receive("lf")
        expect(connection.wire.closed, equals: [.output])
    }

    @Test("The remaining body of a rejected request has the usual body timeout")
    func discardTimeout() throws {
        try connection.receive("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha")
        #expect(connection.secondsLeft <= 600)
        expect(connection.channel.isActive)
        connection.handler.deadlineExpired(now: connection.handler.deadline)
        expect(!connection.channel.isActive)
    }

    @Test("Bytes after the last request are dropped, whatever their number")
    func dropped() throws {
        try connection.receive("GET / HTTP/1.1\r\nBad Name: x\r\n\r\n")
        for _ in 0..<100 { try connection.receive(String(repeating: "x", count: 10_000)) }
        expect(connection.wire.closed, equals: [.output])
        expect(connection.channel.isActive)
    }

    @Test("A connection that is accepted during a drain is closed at once")
    func lateConnection() throws {
        connection.context.drain {}
        let late = EmbeddedChannel(loop: connection.channel.embeddedEventLoop)
        let handler = HTTP1DownstreamHandler(
            DownstreamConnectionInfo(channel: late, context: connection.context, isTLS: false, listener: 0))
        try late.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try late.pipeline.syncOperations.addHandler(handler)
        late.embeddedEventLoop.run()
        expect(!late.isActive)
    }
}

@Suite("HTTP/1.1 connections during a drain (RFC 9112 §9.6)", .serialized)
struct DrainedConnectionTests {
    /// Begins a drain, and waits until an idle connection has noticed it.
    private static func drain(_ gateway: RunningGateway) async throws {
        let idle = try await gateway.client()
        try await expect(idle.exchange(Ask.get("/nowhere")).status, equals: 404)
        await gateway.beginDrain()
        try await idle.closed()
        expect(empty: idle.unread)
    }

    @Test(
        "Of pipelined requests the one in progress is the last, and has Connection: close; new connections are refused")
    func pipelined() async throws {
        try await Tunnel.gateway { gateway, server in
            let client = try await gateway.client(sending: Ask.get("/public/1") + Ask.get("/public/2"))
            let upstream = try await server.requested()
            try await Self.drain(gateway)
            expect((try? await gateway.client()) == nil)
            upstream.send(Reply.ok)
            let response = try await client.response()
            expect(response.text, equals: "ok")
            expect(response["Connection"], equals: "close")
            try await client.closed()
            // The second was not started: it is safe to send again (RFC 9112 §9.3.1).
            expect(empty: upstream.unread)
            expect(empty: client.unread)
            try await gateway.stopped()
        }
    }

    @Test("An upload in progress is read to its end and gets a response (RFC 9112 §9.6)")
    func upload() async throws {
        try await Tunnel.gateway(configuration: { $0.limits.requestBuffer = 0 }) { gateway, server in
            let client = try await gateway.client()
            client.send("POST /public/a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
            let upstream = try await server.requested()
            try await Self.drain(gateway)
            client.send("def")
            try await expect(upstream.text(6), equals: "abcdef")
            upstream.send(Reply.ok)
            let response = try await client.response()
            expect(response.text, equals: "ok")
            expect(response["Connection"], equals: "close")
            try await client.closed()
            try await gateway.stopped()
        }
    }

    @Test("A client that sends one request after another loses none (RFC 9112 §9.6)")
    func oneAfterAnother() async throws {
        // The grace of the drain does not end.
        try await GatewaySetup.serving.steppedTime().run { gateway in
            try await withThrowingTaskGroup(of: Int.self) { group in
                let started = Gate()
                for _ in 0..<8 {
                    group.addTask {
                        let client = try await gateway.client()
                        var count = 0
                        while true {
                            let response = try await client.exchange(Ask.get())
                            expect(response.text, equals: "ok")
                            count += 1
                            if count == 20 { started.open() }
                            if response["Connection"] == "close" {
                                try? await client.close()
                                return count
                            }
                        }
                    }
                }
                await started.passed()
                await gateway.beginDrain()
                for try await count in group { #expect(count > 0) }
            }
            try await gateway.stopped()
        }
    }
}
