import CloakroomCore
import Logging
import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// One address that clients connect to.
struct Listener {
    private let plan: ListenerPlan
    private let tls: TLSListener?
    private let loops: LoopContexts
    private let limit: ConnectionLimit
    private let setup: ConnectionSetup
    private let logger: Logger

    /// - Throws: ``ListenerError`` if its certificates cannot be used.
    init(
        _ plan: ListenerPlan, loops: LoopContexts, limit: ConnectionLimit, addresses: AddressLimit,
        refusals: RefusalCounters, logger: Logger
    ) throws {
        self.plan = plan
        self.loops = loops
        self.limit = limit
        self.logger = logger
        tls = try plan.tls.map { try TLSListener($0, allowsHTTP2: plan.http2) }
        setup = ConnectionSetup(plan, tls: tls, addresses: addresses, refusals: refusals)
    }

    /// The TLS side, under the address as configured; `nil` in clear.
    var namedTLS: (name: String, tls: TLSListener)? {
        tls.map { (name: "\(plan.address)", tls: $0) }
    }

    /// Begins to listen. The address can be shared with other gateways of the same user, so that a new one can stand
    /// before the old one goes; see ``Handover``.
    /// - Parameter others: What this gateway listens on already: it does not share an address with itself.
    /// - Throws: ``ListenerError`` which names the address.
    func bind(
        on group: MultiThreadedEventLoopGroup, beside others: [ListeningSocket]
    ) async throws -> ListeningSocket {
        let loops = self.loops
        let limit = self.limit
        let setup = self.setup
        let logger = self.logger
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 4_096)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.socketOption(.init(rawValue: SO_REUSEPORT)), value: 1)
            .serverChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(AcceptHandler(limit: limit, logger: logger))
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
            let address = try SocketAddress.makeAddressResolvingHost(plan.address.host, port: plan.address.port)
            if others.contains(where: { $0.channel.localAddress == address }) {
                throw IOError(errnoCode: EADDRINUSE, reason: "bind")
            }
            let predecessors = ReuseportGroup.members(at: address)
            let channel = try await bootstrap.bind(to: address).get()
            if !predecessors.isEmpty {
                logger.notice(
                    "another gateway listens on this address too, and gets its share of connections until it stops",
                    metadata: ["address": "\(plan.address)"])
            }
            return ListeningSocket(channel: channel, predecessors: predecessors)
        } catch {
            throw ListenerError(
                description: "cannot listen on \(plan.address): \(error)"
                    + " (choose a free port, or 0, and an address of this machine)")
        }
    }
}
