import NIOCore
import NIOPosix
import NIOSSL
import TestSupport

@testable import cloakroom_demo

/// Forwards all bytes from a listener to a loopback port: gives the mock API other addresses, and TLS.
enum Relay {
    /// Listens while `body` runs.
    /// - Parameters:
    /// - place: The address to listen on; a free loopback port by default.
    /// - certificate: For a TLS listener; `nil` for cleartext.
    static func running<R: Sendable>(
        to target: Int, at place: SocketAddress? = nil, certificate: DemoCertificate? = nil,
        body: (_ port: Int) async throws -> R
    ) async throws -> R {
        let tls = try certificate.map {
            try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: try NIOSSLCertificate.fromPEMFile($0.certificateFile).map { .certificate($0) },
                    privateKey: .privateKey(try NIOSSLPrivateKey(file: $0.keyFile, format: .pem))))
        }
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                ClientBootstrap(group: channel.eventLoop)
                    .channelInitializer { other in
                        other.eventLoop.makeCompletedFuture {
                            try other.pipeline.syncOperations.addHandler(RelayHandler(to: channel))
                        }
                    }
                    .connect(host: "127.0.0.1", port: target)
                    .flatMapThrowing { other in
                        if let tls { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls)) }
                        try channel.pipeline.syncOperations.addHandler(RelayHandler(to: other))
                    }
            }
            .bind(to: place ?? SocketAddress(ipAddress: "127.0.0.1", port: 0)).get()
        return try await stopping {
            try? await server.close()
        } after: {
            try await body(server.localAddress?.port ?? 0)
        }
    }
}

private final class RelayHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) { self.other = other }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }
}
