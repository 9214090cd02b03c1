import CloakroomCore
import CloakroomWire
import NIOCore
import NIOEmbedded
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Memory of HTTP/2 connections to upstreams")
struct UpstreamHTTP2ReleaseTests {
    /// A pool that records nothing.
    private final class Owner: UpstreamHTTP2Owner {
        func mayUse(_ target: TargetRuntime) -> Bool { true }
        func http2Settled(_ connection: UpstreamHTTP2Connection) {}
        func http2RoomChanged(_ connection: UpstreamHTTP2Connection) {}
        func http2Closing(_ connection: UpstreamHTTP2Connection) {}
        func http2Closed(_ connection: UpstreamHTTP2Connection, isSettled: Bool, failure: UpstreamFailure) {}
        func http2LeaseEnded(_ stream: UpstreamStream) {}
        func count(_ removed: RemovedResponseFields) {}
    }

    /// A client that takes a number of bytes, and then pauses the response.
    private final class SlowClient: UpstreamDelegate {
        var stream: UpstreamStream?
        var room = 0

        func upstreamBody(_ bytes: ByteBuffer) {
            room -= bytes.readableBytes
            if room <= 0 { stream?.setPaused(true) }
        }

        func upstreamConnected(_ lease: any UpstreamLease) {}
        func upstreamHasNoRoom() {}
        func upstreamConnectRetried() {}
        func upstreamConnectFailed(_ failure: UpstreamFailure, target: Int?, duration: UInt64) {}
        func upstreamInformational(_ head: borrowing ResponseHead) {}
        func upstreamHead(
            _ head: borrowing ResponseHead, summary: ResponseHeaderPolicy.ResponseHeaderSummary, framing: BodyFraming
        ) {
            stream?.setPaused(true)
        }
        func upstreamReadComplete() {}
        func upstreamEnd(trailers: TrailerSection?) {}
        func upstreamUpgraded(_ head: borrowing ResponseHead) {}
        func upstreamHalfClosed() {}
        func upstreamClosed() {}
        func upstreamFailed(_ failure: UpstreamFailure, isStale: Bool) {}
        func upstreamWritable() {}
        func clientPace(now: UInt64) -> PressureRule.Lease? { nil }
        func endForOthers() {}
    }

    @Test(
        "Rule 80: what a stream holds for its client is delivered as it takes it, and counts until then or its end",
        arguments: ["delivered", "cancelled", "released", "reset", "closed"])
    func held(end: String) throws {
        let channel = EmbeddedChannel()
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        let config = try GatewaySetup().http2Upstream(9).makeConfig()
        let context = LoopContext(eventLoop: channel.eventLoop, config: config, loopCount: 1)
        let target = try require(config.upstreams[0].targets.targets.targets.first)
        let connection = UpstreamHTTP2Connection(
            owner: Owner(), context: context, target: target, poolID: PooledConnectionID(index: 0, generation: 0),
            settings: UpstreamHTTP2Connection.Settings(settleDeadline: .max))
        try channel.pipeline.syncOperations.addHandlers(connection.makeFrameHandlers() + [connection])
        channel.embeddedEventLoop.run()
        func receive(_ frames: [HTTP2WireFrame]) throws {
            try channel.writeInbound(ByteBuffer(bytes: frames.flatMap(\.bytes)))
            channel.embeddedEventLoop.run()
        }
        try receive([.settings([]), .settingsAck])
        let client = SlowClient()
        let stream = try require(connection.lease(isTimed: false))
        client.stream = stream
        let request = UpstreamRequest(
            isHeadRequest: false, upgrade: .none, responsePolicy: config.responsePolicy, injectedSecrets: .none,
            isClientHTTP2: true)
        stream.begin(request, for: client) { $0.writeString("GET / HTTP/1.1\r\nHost: a\r\n\r\n") }
        stream.finishRequest()
        channel.embeddedEventLoop.run()
        try receive([.headers(1, HTTP2Fields([(":status", "200")]), ends: false)])
        try receive((0..<3).map { _ in .data(1, Array(repeating: 1, count: 16_000)) })
        expect(stream.hasHead && stream.isServing)
        expect(context.responseBytes, equals: 48_000)
        client.room = 20_000
        stream.setPaused(false)
        channel.embeddedEventLoop.run()
        expect(context.responseBytes, equals: 16_000)
        expect(stream.heldBytes, equals: 16_000)
        switch end {
        case "delivered":
            client.room = .max
            stream.setPaused(false)
            channel.embeddedEventLoop.run()
        case "cancelled": stream.cancel()
        case "released": stream.release()
        case "reset": try receive([.reset(1)])
        default: _ = try? channel.finish()
        }
        expect(context.responseBytes, equals: 0)
        client.stream = nil
        _ = try? channel.finish()
    }

    @Test("A closed connection and its pool are released")
    func release() throws {
        let channel = EmbeddedChannel()
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        let config = try GatewaySetup().http2Upstream(9).makeConfig()
        let context = LoopContext(eventLoop: channel.eventLoop, config: config, loopCount: 1)
        let target = try require(config.upstreams[0].targets.targets.targets.first)
        weak var released: UpstreamHTTP2Connection?
        weak var releasedOwner: Owner?
        do {
            let owner = Owner()
            let connection = UpstreamHTTP2Connection(
                owner: owner, context: context, target: target, poolID: PooledConnectionID(index: 0, generation: 0),
                settings: UpstreamHTTP2Connection.Settings(settleDeadline: .max))
            try channel.pipeline.syncOperations.addHandlers(connection.makeFrameHandlers() + [connection])
            (released, releasedOwner) = (connection, owner)
        }
        channel.embeddedEventLoop.run()
        expect(released != nil)
        expect(releasedOwner != nil)
        _ = try? channel.finish()
        channel.embeddedEventLoop.run()
        expect(released, equals: nil)
        expect(releasedOwner == nil)
    }
}
