import NIOCore

/// Bounds the bytes of a TLS handshake, on listeners that request certificates of clients.
///
/// The TLS library accepts a certificate chain of 100 KiB from a client, before it has verified anything. It holds the chain
/// twice during the handshake, and keeps it with each session of TLS 1.2 that it stores for resumption.
///
/// The handler is below the TLS handler, and removed when the handshake is complete.
final class HandshakeInput: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    /// Maximum number of bytes until the handshake is complete. A chain of four certificates has 4 to 8 KiB.
    static let limit = 32_768

    private var count = 0

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        count += Self.unwrapInboundIn(data).readableBytes
        guard count <= Self.limit else { return context.close(promise: nil) }
        context.fireChannelRead(data)
    }
}
