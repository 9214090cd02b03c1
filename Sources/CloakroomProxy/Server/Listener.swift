import CloakroomCore
import CloakroomTelemetry
import Logging
import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Binds one client-facing address.
struct Listener {
    private let configuration: ListenerConfiguration
    /// Index in the configuration.
    private let index: Int
    private let tls: TLSListener?
    private let loops: LoopContextGroup
    private let limit: ConnectionLimit
    private let setup: ChildChannelInitializer
    private let metrics: ListenerMetrics
    private let logger: Logger

    /// - Throws: ``ListenerError`` if its certificates are invalid.
    init(
        _ configuration: ListenerConfiguration, index: Int, loops: LoopContextGroup, limit: ConnectionLimit,
        addresses: PerClientConnectionLimit,
        rejections: [ConnectionRejection: CounterHandle], metrics: ListenerMetrics, logger: Logger
    ) throws {
        self.metrics = metrics
        self.configuration = configuration
        self.index = index
        self.loops = loops
        self.limit = limit
        self.logger = logger
        tls = try configuration.tls.map {
            try TLSListener($0, allowsHTTP2: configuration.http2, at: ["listeners", "\(index)", "tls"])
        }
        setup = ChildChannelInitializer(
            configuration: configuration, listener: index, tls: tls, addresses: addresses, rejections: rejections)
    }

    /// TLS state with the configured address as name; `nil` without TLS.
    var namedTLS: (name: String, tls: TLSListener)? {
        tls.map { (name: "\(configuration.address)", tls: $0) }
    }

    /// Starts listening; connections wait in the queue until ``ListeningSocket/accept()``. Afterwards another gateway of
    /// the same user, started to replace this one, can share the address, so that the new one listens before the old one
    /// stops; see ``ListenerHandover``.
    /// - Parameters:
    ///   - others: Sockets of this gateway; two of its listeners cannot share an address.
    ///   - sharesListeners: Whether to share the address with a gateway that listens on it already. Otherwise an address in
    ///     use is an error: two gateways started by mistake would each receive a part of the connections.
    ///   - inherited: Sockets of the service manager; the one with this address is used.
    /// - Throws: ``ListenerError`` which names the address.
    func bind(
        on group: MultiThreadedEventLoopGroup, beside others: [ListeningSocket], sharesListeners: Bool,
        inherited: InheritedSockets
    ) async throws -> ListeningSocket {
        let loops = self.loops
        let limit = self.limit
        let setup = self.setup
        let metrics = self.metrics
        let logger = self.logger
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 4_096)
            .serverChannelOption(.autoRead, value: false)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(Self.sharing, value: sharesListeners ? 1 : 0)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        AcceptHandler(limit: limit, metrics: metrics, logger: logger))
                }
            }
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let context = loops.context(of: channel.eventLoop) else {
                        throw ChannelError.ioOnClosedChannel
                    }
                    try setup.begin(channel, context: context)
                }
            }
        do {
            let address = try SocketAddress.makeAddressResolvingHost(
                configuration.address.host, port: configuration.address.port)
            if others.contains(where: { $0.channel.localAddress == address }) {
                throw ListenerError(
                    ConfigFinding(
                        key: key,
                        message:
                            "address already in use: another listener of this gateway uses \(configuration.address)",
                        suggestion: "choose another port"))
            }
            if let descriptor = inherited.descriptor(at: address) {
                let channel = try await bootstrap.withBoundSocket(descriptor).get()
                return ListeningSocket(channel: channel, predecessors: [], isInherited: true)
            }
            let predecessors = sharesListeners ? ReuseportGroup.members(at: address) : []
            let channel = try await bootstrap.bind(to: address).get()
            // The kernel compares the option of both sockets when the second one is bound. Setting it after binding
            // lets a later gateway share the address, but this bind has failed if the address was in use.
            if !sharesListeners {
                do {
                    try await channel.setOption(Self.sharing, value: 1).get()
                } catch {
                    try? await channel.close()
                    throw error
                }
            }
            if !predecessors.isEmpty {
                logger.notice(
                    "address is shared with another process (SO_REUSEPORT); connections are distributed between both",
                    metadata: ["address": "\(configuration.address)"])
            }
            return ListeningSocket(channel: channel, predecessors: predecessors, isInherited: false)
        } catch let error as ListenerError {
            throw error
        } catch {
            let alternative = sharesListeners ? "only gateways of the same user can share an address" : Self.takeOver
            throw ListenerError(
                ListenFailure.finding(error, address: configuration.address, key: key, alternative: alternative))
        }
    }

    private var key: [String] { ["listeners", "\(index)", "address"] }

    /// Suggestion for an address that is in use.
    static let takeOver = "serve --take-over replaces a gateway that runs there"

    /// Allows sockets to share an address (socket(7)).
    private static let sharing = ChannelOptions.Types.SocketOption.socketOption(.init(rawValue: SO_REUSEPORT))
}
