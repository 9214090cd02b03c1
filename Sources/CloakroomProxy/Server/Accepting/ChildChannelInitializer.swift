import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Initializes accepted connections: admits or rejects them, and adds the channel handlers.
struct ChildChannelInitializer: Sendable {
    let configuration: ListenerConfiguration
    /// Index of the listener in the configuration.
    let listener: Int
    let tls: TLSListener?
    let addresses: PerClientConnectionLimit
    let rejections: [ConnectionRejection: CounterHandle]

    /// Initializes a connection. Must be called on its event loop.
    /// - Throws: ``ConnectionRejection``, or the error of adding handlers. The caller closes the connection then.
    func begin(_ channel: any Channel, context: LoopContext) throws {
        if let sources = configuration.forwardAuth?.sources {
            // What they send is believed.
            guard let address = channel.remoteAddress?.ipAddress, sources.contains(where: { $0.contains(address) })
            else { throw reject(.forwardAuthSource) }
        }
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

    /// Adds the handlers for the client.
    /// - Parameter sourceAddress: The client's address from a PROXY header; `nil` without one.
    func configurePipeline(_ channel: any Channel, context: LoopContext, sourceAddress: String?) throws {
        // The proxy's own connections, such as health checks, are exempt from the limit per client.
        let isOfProxy = configuration.proxyProtocolSources != nil || configuration.forwardAuth != nil
        let client = isOfProxy ? sourceAddress : channel.remoteAddress?.ipAddress
        var load: ClientLoad?
        if let client {
            switch addresses.admit(client, until: channel.closeFuture) {
            case .admitted(let counted): load = counted
            case .rejected: throw reject(.connectionsPerAddress)
            }
        }
        try DownstreamPipeline.add(
            to: channel, context: context, tls: try tls?.makeHandler(),
            limitsHandshake: tls?.requestsCertificates ?? false, allowsHTTP2: configuration.http2, listener: listener,
            sourceAddress: sourceAddress, load: load)
    }

    /// Counts a rejected connection.
    func reject(_ rejection: ConnectionRejection) -> ConnectionRejection {
        rejections[rejection]?.increment()
        return rejection
    }
}

/// Reason that a connection is closed before a request is read.
enum ConnectionRejection: Error, Equatable, CaseIterable {
    /// The required PROXY header is missing or invalid.
    case proxyHeader
    /// The source is not trusted to send PROXY headers.
    case proxySource
    /// The source is not the proxy that the listener decides for.
    case forwardAuthSource
    /// The client has reached its maximum number of connections.
    case connectionsPerAddress

    /// The value of the metric label.
    var label: StaticString {
        switch self {
        case .proxyHeader: "proxy_header"
        case .proxySource: "proxy_source"
        case .forwardAuthSource: "forward_auth_source"
        case .connectionsPerAddress: "connections_per_address"
        }
    }

    /// Count rejected connections. They are not logged: a flood of connections must not flood the log.
    static func counters(_ metrics: GatewayMetrics) -> [Self: CounterHandle] {
        Dictionary(uniqueKeysWithValues: allCases.map { ($0, metrics.rejections(reason: $0.label)) })
    }
}
