public import CloakroomCore
public import CloakroomTelemetry
public import Logging
import NIOCore
import NIOPosix
public import ServiceLifecycle

/// The admin listener: read-only `/live`, `/ready`, `/metrics` and the status page at `/` and `/status.json`, and `POST
/// /sessions/revoke` for callers with the admin token. It is separate from the client listeners and should be bound to
/// loopback or a monitoring network.
///
/// Module `CloakroomAdmin`: the admin listener; it reads metrics and status and decides nothing about requests of
/// clients.
public struct AdminServer: Service, Unprintable {
    private let host: String
    private let port: Int
    private let responder: AdminResponder
    private let tls: (any AdminTLS)?
    private let logger: Logger
    private let onBound: @Sendable (_ port: Int) async -> Void

    /// - Parameters:
    ///   - host: The address or name to bind.
    ///   - port: The port; 0 selects a free one.
    ///   - registry: The metrics of `/metrics`.
    ///   - probes: The checks of `/ready`; all must succeed.
    ///   - revocation: The handler of `/sessions/revoke`; `nil` disables the endpoint.
    ///   - status: The data source of the status page; `nil` disables the page.
    ///   - access: Which requests are rejected.
    ///   - rejectedRequests: The requests of `/why`.
    ///   - tls: The certificates; `nil` serves clear text.
    ///   - now: Returns the time.
    ///   - logger: The logger of the listener itself.
    ///   - onBound: Called with the port once connections are accepted.
    public init(
        host: String, port: Int, registry: PrometheusRegistry, probes: [ReadinessProbe],
        revocation: RevokeSessionsHandler? = nil, status: StatusDataSource? = nil,
        access: AdminAccess = AdminAccess(), rejectedRequests: RejectedRequests = RejectedRequests(),
        tls: (any AdminTLS)? = nil,
        now: @escaping @Sendable () -> WallTime, logger: Logger,
        onBound: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.tls = tls
        self.logger = logger
        self.onBound = onBound
        let reporter = status.map {
            StatusReporter(source: $0, registry: registry, startedAt: now(), instant: .now)
        }
        responder = AdminResponder(
            registry: registry, probes: probes, revocation: revocation, status: reporter, access: access,
            rejectedRequests: rejectedRequests, rejections: revocation?.rejections ?? RejectionLog(), now: now,
            logger: logger)
    }

    /// Serves until graceful shutdown.
    /// - Throws: ``AdminServerError`` if the address cannot be bound.
    public func run() async throws {
        let connections = AdminConnectionLimit()
        let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try add(to: channel, connections) }
            }
        let listener: any Channel
        do {
            listener = try await bootstrap.bind(host: host, port: port).get()
        } catch let error as IOError {
            throw AdminServerError(
                finding: ListenFailure.finding(
                    error, address: HostAndPort(host: host, port: port), key: ["admin", "address"]))
        }
        // They run until the end of this function, which cancels them.
        async let _: Void? = responder.status?.runSampling()
        async let _: Void? = tls?.watch()
        await onBound(listener.localAddress?.port ?? 0)
        await withTaskCancellationOrGracefulShutdownHandler {
            // The system closes the socket on an unrecoverable error.
            try? await listener.closeFuture.get()
        } onCancelOrGracefulShutdown: {
            listener.close(promise: nil)
        }
        await withTaskCancellationHandler {
            await connections.drain()
        } onCancel: {
            connections.cut()
        }
    }

    /// Adds the handlers of a connection.
    private func add(to channel: any Channel, _ connections: AdminConnectionLimit) throws {
        let peer = channel.remoteAddress?.ipAddress ?? ""
        if let tls {
            try channel.pipeline.syncOperations.addHandler(tls.makeHandler(), name: AdminConnection.tlsHandlerName)
        }
        let connection = AdminConnection(connections, peer: peer) { [responder, logger] reason in
            responder.rejections.note(reason, peer: peer, now: responder.now(), logger: logger)
        } respond: { [responder, tls] request in
            let hasClientCertificate = tls?.hasClientCertificate(channel) ?? false
            return channel.eventLoop.makeFutureWithTask {
                await responder.respond(to: request, hasClientCertificate: hasClientCertificate)
            }
        }
        try channel.pipeline.syncOperations.addHandler(connection)
    }
}

/// The error if the admin listener cannot be bound.
public struct AdminServerError: ConfigFindingError, CustomStringConvertible {
    /// The address, the reason and the suggestion, with the key of the address.
    public let finding: ConfigFinding?

    /// The address, the reason and the suggestion.
    public var description: String { finding?.sentence ?? "cannot start the admin listener" }
}
