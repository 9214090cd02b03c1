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

    @Test("A closed connection and its pool are released")
    func release() throws {
        let channel = EmbeddedChannel()
        try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        let config = try GatewaySetup().http2Upstream(9).makeConfig()
        let context = LoopContext(eventLoop: channel.eventLoop, config: config, loopCount: 1)
        let target = try #require(config.upstreams[0].targets.targets.targets.first)
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
        #expect(released != nil)
        #expect(releasedOwner != nil)
        _ = try? channel.finish()
        channel.embeddedEventLoop.run()
        #expect(released == nil)
        #expect(releasedOwner == nil)
    }
}
