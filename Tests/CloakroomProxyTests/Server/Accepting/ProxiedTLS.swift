import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A client that sends unencrypted bytes like a load balancer, and then performs the TLS handshake.
enum ProxiedTLS {
    /// Sends a request, and reads the response up to the end of the first head.
    static func exchange(_ request: String, port: Int, behind header: String) async throws -> String {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        let context = try NIOSSLContext(configuration: configuration)
        let reader = Reader.Text()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(Preface(ByteBuffer(string: header)))
                    try pipeline.addHandler(NIOSSLClientHandler(context: context, serverHostname: nil))
                    try pipeline.addHandler(Reader(reader))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        try await channel.writeAndFlush(ByteBuffer(string: request)).get()
        try await eventually("a response") { reader.text.withLock { $0.contains("\r\n\r\n") } }
        try await channel.close()
        return reader.text.withLock { $0 }
    }

    /// Sends bytes before all other handlers.
    private final class Preface: ChannelOutboundHandler, RemovableChannelHandler {
        typealias OutboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private var bytes: ByteBuffer?

        init(_ bytes: ByteBuffer) {
            self.bytes = bytes
        }

        func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
            if let bytes {
                self.bytes = nil
                context.write(wrapOutboundOut(bytes), promise: nil)
            }
            context.write(data, promise: promise)
        }
    }

    private final class Reader: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        final class Text: Sendable {
            let text = Mutex("")
        }

        private let read: Text

        init(_ read: Text) {
            self.read = read
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let text = String(buffer: unwrapInboundIn(data))
            read.text.withLock { $0 += text }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
