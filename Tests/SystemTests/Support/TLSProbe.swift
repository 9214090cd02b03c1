import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization
import TestSupport

/// A TLS server that records the offers of its clients and the bytes they send after the handshake. It sends no
/// response.
final class TLSProbe: Sendable {
    /// The protocol versions and cipher suites that the server supports.
    enum Kind: String, Sendable, CaseIterable {
        /// TLS 1.2 with AES-GCM.
        case current
        /// TLS 1.1 and below.
        case tls11
        /// TLS 1.2 with CBC only.
        case cbc
    }

    private struct State {
        var hellos: [[UInt8]] = []
        var handshakes = 0
        var received = 0
    }

    private let state = Mutex(State())

    /// The first bytes received on each connection.
    var hellos: [ClientHello] { state.withLock { $0.hellos }.compactMap(ClientHello.init) }
    /// The number of completed handshakes.
    var handshakes: Int { state.withLock { $0.handshakes } }
    /// The number of bytes received after a handshake.
    var received: Int { state.withLock { $0.received } }

    /// Listens on a free loopback port while `body` runs.
    static func running<R: Sendable>(
        _ kind: Kind, certificateFile: String, keyFile: String,
        body: (_ port: Int, _ probe: TLSProbe) async throws -> R
    ) async throws -> R {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificateFile).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: keyFile, format: .pem)))
        switch kind {
        case .current:
            configuration.maximumTLSVersion = .tlsv12
            configuration.cipherSuiteValues = [
                .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            ]
        case .tls11:
            configuration.minimumTLSVersion = .tlsv1
            configuration.maximumTLSVersion = .tlsv11
            configuration.cipherSuiteValues = Self.cbc
        case .cbc:
            configuration.minimumTLSVersion = .tlsv1
            configuration.maximumTLSVersion = .tlsv12
            configuration.cipherSuiteValues = Self.cbc
        }
        let context = try NIOSSLContext(configuration: configuration)
        let probe = TLSProbe()
        let server = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                let number = probe.state.withLock { state in
                    state.hellos.append([])
                    return state.hellos.count - 1
                }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        Recorder { bytes in probe.state.withLock { $0.hellos[number] += bytes } },
                        NIOSSLServerHandler(context: context),
                        Sink { handshakes, bytes in
                            probe.state.withLock {
                                $0.handshakes += handshakes
                                $0.received += bytes
                            }
                        },
                    ])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return try await stopping {
            try? await server.close()
        } after: {
            try await body(server.localAddress?.port ?? 0, probe)
        }
    }

    /// Connects as a client that accepts everything, to verify that the probe works.
    static func connectLeniently(port: Int) async throws {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.minimumTLSVersion = .tlsv1
        configuration.cipherSuiteValues = cbc + [.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
        let context = try NIOSSLContext(configuration: configuration)
        let peer = try await RawPeer.connect(port: port, allowsHalfClosure: false) {
            [try NIOSSLClientHandler(context: context, serverHostname: "localhost")]
        }
        try await peer.stream(ByteBuffer(string: "hello"), times: 1)
        try await peer.close()
    }

    private static let cbc: [NIOTLSCipher] = [
        .TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, .TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
        .TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, .TLS_RSA_WITH_AES_128_CBC_SHA,
    ]

    private final class Recorder: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let note: ([UInt8]) -> Void

        init(_ note: @escaping ([UInt8]) -> Void) { self.note = note }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            note(Array(unwrapInboundIn(data).readableBytesView))
            context.fireChannelRead(data)
        }
    }

    private final class Sink: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let note: (_ handshakes: Int, _ bytes: Int) -> Void

        init(_ note: @escaping (_ handshakes: Int, _ bytes: Int) -> Void) { self.note = note }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case .handshakeCompleted? = event as? TLSUserEvent { note(1, 0) }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            note(0, unwrapInboundIn(data).readableBytes)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}

/// The offer of a client at the start of a handshake (RFC 8446 §4.1.2).
struct ClientHello: Sendable {
    private(set) var suites: [UInt16] = []
    /// The versions in `supported_versions`; the version of the message itself without that extension.
    private(set) var versions: [UInt16] = []
    private(set) var protocols: [String] = []

    /// - Returns: `nil` unless the bytes begin with a record that contains the complete message.
    init?(_ bytes: [UInt8]) {
        var reader = ByteBuffer(bytes: bytes)
        guard reader.readInteger(as: UInt8.self) == 22, reader.readInteger(as: UInt16.self) != nil,
            let length = reader.readInteger(as: UInt16.self), var record = reader.readSlice(length: Int(length)),
            record.readInteger(as: UInt8.self) == 1, record.readBytes(length: 3) != nil,
            let version = record.readInteger(as: UInt16.self), record.readBytes(length: 32) != nil,
            let session = record.readInteger(as: UInt8.self), record.readBytes(length: Int(session)) != nil,
            let suitesLength = record.readInteger(as: UInt16.self),
            var list = record.readSlice(length: Int(suitesLength)),
            let compressions = record.readInteger(as: UInt8.self), record.readBytes(length: Int(compressions)) != nil,
            let extensionsLength = record.readInteger(as: UInt16.self),
            var extensions = record.readSlice(length: Int(extensionsLength))
        else { return nil }
        while let suite = list.readInteger(as: UInt16.self) { suites.append(suite) }
        while let type = extensions.readInteger(as: UInt16.self), let size = extensions.readInteger(as: UInt16.self),
            var content = extensions.readSlice(length: Int(size))
        {
            switch type {
            case 43:
                _ = content.readInteger(as: UInt8.self)
                while let offered = content.readInteger(as: UInt16.self) { versions.append(offered) }
            case 16:
                _ = content.readInteger(as: UInt16.self)
                while let size = content.readInteger(as: UInt8.self), let name = content.readString(length: Int(size)) {
                    protocols.append(name)
                }
            default: break
            }
        }
        if versions.isEmpty { versions = [version] }
    }
}
