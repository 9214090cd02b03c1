import CloakroomCore
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import TestSupport

@testable import CloakroomProxy

/// A server with a TLS listener. After the handshake it sends the negotiated parameters, echoes the data that it
/// receives, and closes the connection on a line `bye`.
struct TLSEcho: Sendable {
    let port: Int
    let tls: TLSListener

    static func running(
        _ configuration: ListenerTLSConfiguration, allowsHTTP2: Bool = false, _ body: (TLSEcho) async throws -> Void
    ) async throws {
        let tls = try TLSListener(configuration, allowsHTTP2: allowsHTTP2)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try tls.makeHandler()
                    try channel.pipeline.syncOperations.addHandler(handler)
                    try channel.pipeline.syncOperations.addHandler(Handler(tls: handler))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        try await stopping {
            try? await channel.close()
        } after: {
            try await body(TLSEcho(port: channel.localAddress?.port ?? 0, tls: tls))
        }
    }

    /// The greeting's line about a client's certificate.
    static func subject(_ text: String) -> String { "subject=\(text)\n" }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let tls: NIOSSLServerHandler

        init(tls: NIOSSLServerHandler) { self.tls = tls }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
                let subject = tls.peerCertificate.flatMap(ClientCertificate.subject) ?? "none"
                let text = "protocol=\(negotiated ?? "none")\n" + TLSEcho.subject(subject)
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
            }
            context.fireUserInboundEventTriggered(event)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
            if String(buffer: bytes).contains("bye\n") { context.close(promise: nil) }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
