import CloakroomCore
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// One address that clients connect to, and the pipeline of what they get there.
struct Listener {
    private let plan: ListenerPlan
    private let loops: LoopContexts
    private let limit: ConnectionLimit

    init(_ plan: ListenerPlan, loops: LoopContexts, limit: ConnectionLimit) {
        self.plan = plan
        self.loops = loops
        self.limit = limit
    }

    /// Begins to listen.
    func bind(on group: MultiThreadedEventLoopGroup) async throws -> any Channel {
        let tls = try plan.tls.map { try TLSContext.make($0) }
        let loops = self.loops
        let limit = self.limit
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 4_096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard limit.enter(until: channel.closeFuture), let context = loops.context(of: channel.eventLoop)
                    else { throw ChannelError.ioOnClosedChannel }
                    try Self.configure(channel, context: context, tls: tls)
                }
            }
        do {
            return try await bootstrap.bind(host: plan.address.host, port: plan.address.port).get()
        } catch {
            throw ListenerError(
                description: "cannot listen on \(plan.address): \(error)"
                    + " (choose a free port, or 0, and an address of this machine)")
        }
    }

    private static func configure(_ channel: any Channel, context: LoopContext, tls: NIOSSLContext?) throws {
        let pipeline = channel.pipeline.syncOperations
        guard let tls else {
            return try pipeline.addHandler(HTTP1DownstreamHandler(channel: channel, context: context, isTLS: false))
        }
        try pipeline.addHandler(NIOSSLServerHandler(context: tls))
        // Here the protocol is chosen by what was negotiated: HTTP/1.1 is the one there is.
        try pipeline.addHandler(HTTP1DownstreamHandler(channel: channel, context: context, isTLS: true))
    }
}

/// The TLS side of a listener.
enum TLSContext {
    /// - Throws: ``ListenerError`` which names the file.
    static func make(_ plan: TLSPlan) throws -> NIOSSLContext {
        let chain: [NIOSSLCertificateSource]
        do {
            chain = try NIOSSLCertificate.fromPEMFile(plan.certificateFile).map { .certificate($0) }
        } catch {
            throw ListenerError(
                description: "\(plan.certificateFile): no certificate can be read from it"
                    + " (give a PEM file, the server's certificate first)")
        }
        let key: NIOSSLPrivateKey
        do {
            key = try NIOSSLPrivateKey(file: plan.keyFile, format: .pem)
        } catch {
            throw ListenerError(
                description: "\(plan.keyFile): no private key can be read from it (give an unencrypted PEM file)")
        }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain, privateKey: .privateKey(key))
        configuration.minimumTLSVersion = plan.minimumVersion == .tls13 ? .tlsv13 : .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw ListenerError(
                description: "\(plan.certificateFile) and \(plan.keyFile) do not make a TLS listener: \(error)"
                    + " (check that the key belongs to the certificate)")
        }
    }
}

/// The bound on connections from clients, over all event loops.
final class ConnectionLimit: Sendable {
    private let limit: Int
    private let count = Atomic<Int>(0)

    init(_ limit: Int) {
        self.limit = limit
    }

    /// Takes a place until the connection is closed.
    /// - Returns: Whether there was one.
    func enter(until closed: EventLoopFuture<Void>) -> Bool {
        guard count.wrappingAdd(1, ordering: .relaxed).newValue <= limit else {
            count.wrappingSubtract(1, ordering: .relaxed)
            return false
        }
        closed.whenComplete { _ in self.count.wrappingSubtract(1, ordering: .relaxed) }
        return true
    }
}
