import CloakroomCore
import CloakroomTelemetry
import NIOCore
import NIOEmbedded
import Testing

@testable import CloakroomProxy

@Suite("Objects released by an HTTP/2 connection")
struct HTTP2ReleaseTests {
    @Test("Streams are released after their requests, at once or with their connection")
    func released() throws {
        var settings = TelemetrySettings()
        settings.isAccessLogEnabled = false
        let telemetry = GatewayTelemetry(settings: settings)
        defer { telemetry.shutdown() }
        let configuration = GatewayConfiguration(
            listeners: [], upstreams: [], routes: [], accounts: AccountsConfiguration(upstream: nil))
        let config = try ConfigSnapshot(
            configuration: configuration, sessions: FakeSessions(), refresher: FakeRefresher(),
            accountEndpoints: FakeEndpoints(),
            telemetry: telemetry, tracer: nil)
        let channel = EmbeddedChannel()
        let context = LoopContext(eventLoop: channel.embeddedEventLoop, config: config, loopCount: 1)
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        try DownstreamPipeline.addHTTP2(DownstreamConnectionInfo(channel: channel, context: context, isTLS: false))
        let handler = try channel.pipeline.syncOperations.handler(type: HTTP2DownstreamHandler.self)

        // More concurrent streams than the number that is cached for reuse.
        var bytes = HTTP2WireFrame.preface + HTTP2WireFrame.settings().bytes
        let ids = Array(stride(from: UInt32(1), to: 25, by: 2))
        for id in ids { bytes += HTTP2WireFrame.headers(id, .get("/nowhere")).bytes }
        try channel.writeInbound(ByteBuffer(bytes: bytes))
        #expect(handler.streams.count == ids.count)
        let gone = handler.streams.map { Weak($0, $0.exchange) }
        channel.embeddedEventLoop.run()
        #expect(handler.streams.isEmpty)
        #expect(gone.filter { $0.exchange == nil }.count == ids.count - handler.recycledStreams.count)

        _ = try channel.finish(acceptAlreadyClosed: true)
        #expect(gone.allSatisfy { $0.stream == nil && $0.exchange == nil })
    }

    private final class Weak {
        weak var stream: HTTP2Stream?
        weak var exchange: Exchange?

        init(_ stream: HTTP2Stream, _ exchange: Exchange?) {
            self.stream = stream
            self.exchange = exchange
        }
    }
}
