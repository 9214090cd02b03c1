import CloakroomCore
import NIOCore

/// What becomes of a connection once it is accepted: it is let in or closed, and gets its pipeline.
struct ChildChannelInitializer: Sendable {
    private let configuration: ListenerConfiguration
    private let tls: TLSListener?
    private let addresses: PerClientConnectionLimit
    private let rejections: RejectionCounters

    init(
        _ configuration: ListenerConfiguration, tls: TLSListener?, addresses: PerClientConnectionLimit,
        rejections: RejectionCounters
    ) {
        self.configuration = configuration
        self.tls = tls
        self.addresses = addresses
        self.rejections = rejections
    }

    /// Sets up a connection. Only on its event loop.
    /// - Throws: ``ConnectionRejection``, or why there is no pipeline. The connection is to be closed then.
    func begin(_ channel: any Channel, context: LoopContext) throws {
        guard let sources = configuration.proxyProtocolSources else {
            return try configurePipeline(channel, context: context, sourceAddress: nil)
        }
        let address = channel.remoteAddress?.ipAddress
        guard let address, sources.contains(where: { $0.contains(address) }) else {
            throw reject(.proxySource)
        }
        try channel.pipeline.syncOperations.addHandler(
            ProxyHeaderHandler(channel: channel, context: context, setup: self))
    }

    /// Gives a connection what it is to talk to.
    /// - Parameter sourceAddress: The client's address where a PROXY header told it.
    func configurePipeline(_ channel: any Channel, context: LoopContext, sourceAddress: String?) throws {
        // What a proxy sends for itself, such as a health check, is not held to the bound for clients.
        let client = configuration.proxyProtocolSources == nil ? channel.remoteAddress?.ipAddress : sourceAddress
        if let client, !addresses.acquire(client, until: channel.closeFuture) {
            throw reject(.connectionsPerAddress)
        }
        try DownstreamPipeline.add(
            to: channel, context: context, tls: try tls?.makeHandler(), allowsHTTP2: configuration.http2,
            sourceAddress: sourceAddress)
    }

    /// Counts a refusal.
    func reject(_ rejection: ConnectionRejection) -> ConnectionRejection {
        rejections.count(rejection)
        return rejection
    }
}
