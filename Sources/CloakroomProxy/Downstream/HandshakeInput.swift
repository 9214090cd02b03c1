import NIOCore

/// Bounds the bytes of a TLS handshake, on listeners that request certificates of clients.
///
/// The TLS library accepts a certificate chain of 100 KiB from a client, before it has verified anything. It holds the chain
/// twice during the handshake, and keeps it with each session of TLS 1.2 that it stores for resumption.
///
/// The handler is below the TLS handler.
final class HandshakeInput: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    /// Maximum number of bytes until the handshake is complete. A chain of four certificates has 4 to 8 KiB.
    static let limit = 32_768

    /// Whether the handshake is complete. What follows is not limited, also if it is part of the same read.
    var isComplete = false
    private var left = HandshakeInput.limit

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isComplete else { return context.fireChannelRead(data) }
        var rest = Self.unwrapInboundIn(data)
        let bytes = rest.readSlice(length: min(left, rest.readableBytes)) ?? ByteBuffer()
        left -= bytes.readableBytes
        if bytes.readableBytes > 0 { context.fireChannelRead(Self.wrapInboundOut(bytes)) }
        guard rest.readableBytes > 0 else { return }
        guard isComplete, context.channel.isActive else { return context.close(promise: nil) }
        context.fireChannelRead(Self.wrapInboundOut(rest))
    }
}
