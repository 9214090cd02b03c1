public import CloakroomCore
public import CloakroomTelemetry
import Hummingbird
public import Logging
import NIOCore
public import ServiceLifecycle

/// The listener for operators and scrapers: `/live`, `/ready`, `/metrics` and the status page, `/` and `/status.json`,
/// read-only, and `POST /sessions/revoke` for who has the token. It is separate from the gateway's own listeners and
/// belongs on loopback or a monitoring network.
public struct AdminServer: Service, Unprintable {
    private let host: String
    private let port: Int
    private let responder: AdminResponder
    private let logger: Logger
    private let onBound: @Sendable (_ port: Int) async -> Void

    /// - Parameters:
    ///   - host: address or name to bind.
    ///   - port: 0 picks a free one.
    ///   - registry: what `/metrics` shows.
    ///   - probes: what `/ready` asks; all must hold.
    ///   - revocation: what `/sessions/revoke` does; without it there is no such page.
    ///   - status: what the status page asks; without it there is no such page.
    ///   - now: tells the time.
    ///   - logger: for the listener's own affairs.
    ///   - onBound: is told the port once connections are accepted.
    public init(
        host: String, port: Int, registry: PrometheusRegistry, probes: [ReadinessProbe],
        revocation: RevokeSessionsHandler? = nil, status: StatusDataSource? = nil,
        now: @escaping @Sendable () -> Timestamp = RevokeSessionsHandler.wallClock, logger: Logger,
        onBound: @escaping @Sendable (_ port: Int) async -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.logger = logger
        self.onBound = onBound
        let reporter = status.map {
            StatusReporter(source: $0, registry: registry, startedAt: now(), instant: .now)
        }
        responder = AdminResponder(
            registry: registry, probes: probes, revocation: revocation, status: reporter, now: now, logger: logger)
    }

    /// Serves until graceful shutdown.
    /// - Throws: ``AdminServerError`` when the address cannot be bound.
    public func run() async throws {
        let application = Application(
            responder: responder,
            server: .http1(
                configuration: .init(
                    // Longer than scrapers pause, so that they can keep their connection.
                    idleTimeout: .seconds(90),
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: 8 << 10, maxHeaderListSize: 16 << 10, maxHeaderFieldCount: 100))),
            configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { [onBound] channel in
                await onBound(channel.localAddress?.port ?? 0)
            },
            // What the library has to say is said here in the gateway's own words, or is of no use to an operator.
            logger: Logger(label: "admin") { _ in SwiftLogNoOpLogHandler() })
        // Goes on until the end of this function, which cancels it.
        async let _: Void? = responder.status?.runSampling()
        do {
            try await application.run()
        } catch let error as IOError {
            throw AdminServerError(
                finding: ListenFailure.finding(
                    error, address: HostAndPort(host: host, port: port), key: ["admin", "address"]))
        }
    }
}

/// Why the listener for operators does not stand.
public struct AdminServerError: ConfigFindingError, CustomStringConvertible {
    /// Where, why, and what to do, with the key of the address.
    public let finding: ConfigFinding?

    /// Where, why, and what to do.
    public var description: String { finding?.sentence ?? "cannot listen for operators" }
}
