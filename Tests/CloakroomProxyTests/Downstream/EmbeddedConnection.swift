import CloakroomCore
import NIOCore
import NIOEmbedded

@testable import CloakroomProxy

/// A client's connection to a gateway without sockets, which is closed at the end.
final class EmbeddedConnection {
    let channel = EmbeddedChannel()
    let context: LoopContext

    init(_ config: ConfigSnapshot? = nil) throws {
        let config = try config ?? GatewaySetup().makeConfig()
        context = LoopContext(eventLoop: channel.embeddedEventLoop, config: config, loopCount: 1)
    }

    /// Connects with HTTP/1.1.
    /// - Parameter wire: A handler between the connection and the client.
    func http1(behind wire: (any ChannelHandler)? = nil) throws -> HTTP1DownstreamHandler {
        let handler = HTTP1DownstreamHandler(info)
        try channel.pipeline.syncOperations.addHandlers((wire.map { [$0] } ?? []) + [handler])
        try connect()
        return handler
    }

    /// Connects with HTTP/2.
    func http2(behind wire: (any ChannelHandler)? = nil) throws -> HTTP2DownstreamHandler {
        try connect()
        if let wire { try channel.pipeline.syncOperations.addHandler(wire) }
        try DownstreamPipeline.addHTTP2(info)
        return try channel.pipeline.syncOperations.handler(type: HTTP2DownstreamHandler.self)
    }

    /// Connects without a protocol.
    func connect() throws { try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait() }

    var info: DownstreamConnectionInfo {
        DownstreamConnectionInfo(channel: channel, context: context, isTLS: false, listener: 0)
    }

    func receive(_ text: String) throws { try channel.writeInbound(ByteBuffer(string: text)) }

    /// All bytes sent since the last call.
    func sent() throws -> ByteBuffer {
        var all = ByteBuffer()
        while let bytes = try channel.readOutbound(as: ByteBuffer.self) { all.writeImmutableBuffer(bytes) }
        return all
    }

    deinit { _ = try? channel.finish(acceptAlreadyClosed: true) }
}
