import NIOCore
import NIOPosix

/// Sends raw bytes that no HTTP client would send.
enum RawConnection {
    /// Sends bytes.
    /// - Parameter hangsUp: Whether to close the connection after sending; otherwise the peer has to.
    /// - Returns: All bytes received.
    static func exchange(_ bytes: [UInt8], port: Int, hangsUp: Bool = false) async throws -> String {
        let channel = try await connect(port: port)
        let collector = try await channel.eventLoop.submit {
            NIOLoopBound(
                try channel.pipeline.syncOperations.handler(type: Collector.self), eventLoop: channel.eventLoop)
        }.get()
        // The peer may have closed the connection already.
        try? await channel.writeAndFlush(ByteBuffer(bytes: bytes))
        if hangsUp { try? await channel.close() }
        let timeout = channel.eventLoop.scheduleTask(in: .seconds(40)) { channel.close(promise: nil) }
        try await channel.closeFuture.get()
        timeout.cancel()
        return try await channel.eventLoop.submit { String(buffer: collector.value.received) }.get()
    }

    /// Whether no process listens on the port.
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
