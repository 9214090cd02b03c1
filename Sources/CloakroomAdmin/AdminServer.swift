public import CloakroomCore
public import CloakroomTelemetry
import Hummingbird
import HummingbirdCore
public import Logging
import NIOCore
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
    private let tls: AdminTLS?
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
    ///   - tls: The certificates; `nil` serves clear text.
    ///   - now: Returns the time.
    ///   - logger: The logger of the listener itself.
    ///   - onBound: Called with the port once connections are accepted.
    public init(
        host: String, port: Int, registry: PrometheusRegistry, probes: [ReadinessProbe],
        revocation: RevokeSessionsHandler? = nil, status: StatusDataSource? = nil,
        access: AdminAccess = AdminAccess(), tls: AdminTLS? = nil,
        now: @escaping @Sendable () -> Timestamp = RevokeSessionsHandler.wallClock, logger: Logger,
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
            rejections: revocation?.rejections ?? RejectionLog(), hasClientCertificate: tls?.hasClientCertificate,
            now: now, logger: logger)
    }

    /// Serves until graceful shutdown.
    /// - Throws: ``AdminServerError`` if the address cannot be bound.
    public func run() async throws {
        let connections = AdminConnectionLimit()
        let application = Application(
            responder: responder,
            server: HTTPServerBuilder { [responder, tls, logger] respond in
                AdminChannel(
                    base: HTTP1Channel(
                        responder: respond,
                        configuration: .init(
                            // Longer than scrape intervals, so scrapers can keep their connection.
                            idleTimeout: .seconds(90),
                            httpDecoderConfiguration: .init(
                                maxHeaderFieldSize: 8 << 10, maxHeaderListSize: 16 << 10, maxHeaderFieldCount: 100))),
                    tls: tls, connections: connections
                ) { reason, peer in
                    responder.rejections.note(reason, peer: peer, now: responder.now(), logger: logger)
                }
            },
            configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { [onBound] channel in
                await onBound(channel.localAddress?.port ?? 0)
            },
            // Log lines of the library are suppressed; the gateway logs relevant events itself.
            logger: Logger(label: "admin") { _ in SwiftLogNoOpLogHandler() })
        // Runs until the end of this function, which cancels it.
        async let _: Void? = responder.status?.runSampling()
        async let _: Void? = tls?.watch()
        do {
            try await application.run()
        } catch let error as IOError {
            throw AdminServerError(
                finding: ListenFailure.finding(
                    error, address: HostAndPort(host: host, port: port), key: ["admin", "address"]))
        }
    }
}

/// The error if the admin listener cannot be bound.
public struct AdminServerError: ConfigFindingError, CustomStringConvertible {
    /// The address, the reason and the suggestion, with the key of the address.
    public let finding: ConfigFinding?

    /// The address, the reason and the suggestion.
    public var description: String { finding?.sentence ?? "cannot start the admin listener" }
}

/// Connection data of a request.
struct AdminRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The operator's address, without port; empty if unknown.
    let peer: String
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
        peer = source.channel.remoteAddress?.ipAddress ?? ""
    }
}
