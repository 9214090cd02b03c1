import NIOCore
import NIOPosix

/// Bytes on a socket, for what no HTTP client would send.
enum RawConnection {
    /// Sends bytes.
    /// - Parameter hangsUp: Whether to close right after that; otherwise the other side has to.
    /// - Returns: All that came back.
    static func exchange(_ bytes: [UInt8], port: Int, hangsUp: Bool = false) async throws -> String {
        let channel = try await connect(port: port)
        let collector = try await channel.eventLoop.submit {
            NIOLoopBound(
                try channel.pipeline.syncOperations.handler(type: Collector.self), eventLoop: channel.eventLoop)
        }.get()
        // The other side may have closed already.
        try? await channel.writeAndFlush(ByteBuffer(bytes: bytes))
        if hangsUp { try? await channel.close() }
        let timeout = channel.eventLoop.scheduleTask(in: .seconds(40)) { channel.close(promise: nil) }
        try await channel.closeFuture.get()
        timeout.cancel()
        return try await channel.eventLoop.submit { String(buffer: collector.value.received) }.get()
    }

    /// Whether nobody listens there.
    static func isRejected(port: Int) async -> Bool {
        guard let channel = try? await connect(port: port) else { return true }
        try? await channel.close()
        return false
    }

    private static func connect(port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Collector())
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
    }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        var received = ByteBuffer()

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            received.writeImmutableBuffer(unwrapInboundIn(data))
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
