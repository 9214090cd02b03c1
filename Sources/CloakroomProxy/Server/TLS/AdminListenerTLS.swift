public import CloakroomCore
public import CloakroomTelemetry
public import Logging
public import NIOCore
import NIOSSL

/// The certificates of the admin listener: the same files, checks and reload as those of the listeners for clients.
public struct AdminListenerTLS: Sendable {
    private let name: String
    private let listener: TLSListener
    private let registry: PrometheusRegistry
    private let logger: Logger

    /// Reads the files.
    /// - Parameters:
    ///   - address: The address of the listener, by which metrics and the status page name its certificates.
    ///   - registry: The metrics of the certificates.
    /// - Throws: ``ListenerError`` which names the file.
    public init(
        _ configuration: ListenerTLSConfiguration, address: HostAndPort, registry: PrometheusRegistry, logger: Logger
    ) throws {
        name = "\(address)"
        self.registry = registry
        self.logger = logger
        listener = try TLSListener(configuration, allowsHTTP2: false, at: ["admin", "tls"])
    }

    /// Creates the TLS handler of one connection.
    public func makeHandler() throws -> any ChannelHandler { try listener.makeHandler() }

    /// Whether the client of a connection presented a certificate, which the handshake has verified and which has not
    /// expired since. Must be called on the channel's event loop.
    public func hasClientCertificate(_ channel: any Channel) -> Bool {
        let now = LoopClock().wallTime(at: NIODeadline.now().uptimeNanoseconds).milliseconds / 1_000
        let handler = try? channel.pipeline.syncOperations.handler(type: NIOSSLServerHandler.self)
        return handler?.peerCertificate.map { !ClientCertificate.isExpired($0, at: now) } ?? false
    }

    /// Reloads changed files every 10 s until cancelled, for new connections.
    public func watch() async {
        await CertificateReloader.watch([(name: name, tls: listener)], registry: registry, logger: logger)
    }

    /// The certificates that new connections use.
    public var certificates: [CertificateStatus] { GatewayServer.status(of: listener, name: name) }
}
