import NIOCore
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport

/// A client that performs a handshake and reads data. It accepts every certificate, and records the server's.
final class TLSClient: Sendable {
    private struct State {
        var text = ""
        var isClosed = false
        var certificate: NIOSSLCertificate?
        var version: NIOSSL.TLSVersion?
    }

    private final class Recorder: Sendable {
        let state = Mutex(State())
    }

    private let channel: any Channel
    private let recorder: Recorder

    private init(channel: any Channel, recorder: Recorder) {
        self.channel = channel
        self.recorder = recorder
    }

    /// Connects to loopback, and waits for the handshake and the server's greeting, or the end of the connection.
    /// - Parameter isGreeted: Whether the server sends data first; otherwise the client waits for its certificate only.
    static func connect(
        port: Int, serverName: String? = nil, isGreeted: Bool = true,
        adjust: (inout TLSConfiguration) throws -> Void = { _ in }
    ) async throws -> TLSClient {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .noHostnameVerification
        try adjust(&configuration)
        let context = try NIOSSLContext(configuration: configuration)
        let recorder = Recorder()
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try NIOSSLClientHandler(
                        context: context, serverHostname: serverName,
                        customVerificationCallback: { certificates, promise in
                            recorder.state.withLock { $0.certificate = certificates.first }
                            promise.succeed(.certificateVerified)
                        })
                    try channel.pipeline.syncOperations.addHandler(tls)
                    try channel.pipeline.syncOperations.addHandler(Handler(recorder, tls: tls))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let client = TLSClient(channel: channel, recorder: recorder)
        try await eventually("a greeting") {
            client.isClosed || (isGreeted ? client.isServed : client.certificate != nil)
        }
        return client
    }

    /// The data received so far.
    var text: String { recorder.state.withLock { $0.text } }
    /// Whether the server has closed the connection, before or after the handshake.
    var isClosed: Bool { recorder.state.withLock { $0.isClosed } }
    /// The server's certificate.
    var certificate: NIOSSLCertificate? { recorder.state.withLock { $0.certificate } }
    /// The negotiated protocol.
    var version: NIOSSL.TLSVersion? { recorder.state.withLock { $0.version } }
    /// Whether the server has sent any data.
    var isServed: Bool { text.contains("subject=") }

    /// The first common name of the server's certificate.
    var serverName: String? {
        certificate?.description.split(separator: "common_name=").last.map { String($0.prefix { $0 != ";" }) }
    }

    /// Sends a line and waits for its echo.
    func echo(_ line: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: line + "\n")).get()
        try await eventually("the line \(line)") { self.text.hasSuffix(line + "\n") }
    }

    /// Sends text.
    func send(_ text: String) {
        channel.writeAndFlush(ByteBuffer(string: text), promise: nil)
    }

    /// Closes the connection.
    func close() async throws {
        if !isClosed { try? await channel.close() }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let recorder: Recorder
        private let tls: NIOSSLClientHandler

        init(_ recorder: Recorder, tls: NIOSSLClientHandler) {
            self.recorder = recorder
            self.tls = tls
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let text = String(buffer: unwrapInboundIn(data))
            let version = tls.tlsVersion
            recorder.state.withLock {
                $0.text += text
                $0.version = version
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            recorder.state.withLock { $0.isClosed = true }
        }
    }
}
