import CloakroomAdmin
import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTelemetry
import Logging
import NIOPosix
import ServiceLifecycle
import Tracing
import UnixSignals

/// The whole gateway: every room is made here and joined with the others, and nowhere else.
struct Gateway {
    let plan: GatewayPlan
    let telemetry: GatewayTelemetry
    private let server: GatewayServer
    private let services: [any Service]
    private let logger: Logger

    /// Joins everything that a plan asks for.
    /// - Parameters:
    ///   - onListening: Is told where clients connect, once they can.
    ///   - onAdminListening: Is told the port for operators.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with an upstream or the session store is of no use.
    init(
        plan: GatewayPlan, telemetry: GatewayTelemetry,
        onListening: @escaping @Sendable ([GatewayServer.BoundListener]) async -> Void = { _ in },
        onAdminListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws {
        self.plan = plan
        self.telemetry = telemetry
        let logger = Logger(label: "cloakroom") { telemetry.makeLogHandler(label: $0) }
        self.logger = logger

        let observer = AccountTelemetry(metrics: telemetry.metrics, audit: AuditLog(logger: logger))
        let flightClock = SessionClock()
        let clock = SessionClock(isSteady: plan.session.store != .valkey)
        let sessions = try SessionStoreSetup(
            plan.session, events: observer.sessionEvents, metrics: telemetry.metrics, registry: telemetry.registry,
            clock: clock, logger: logger)

        // In the order in which they are needed; see ``run()``.
        var services: [any Service] = []
        let ownEndpoints: any OwnEndpoints
        let renewer: any SessionRenewing
        if let upstream = plan.accounts.upstream.map({ plan.upstreams[$0] }) {
            let client = UpstreamTokenClient(
                upstream, timeouts: plan.timeouts, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                tls: try UpstreamTLS.configuration(upstream.tls))
            let sessionRenewer = SessionRenewer(
                store: sessions.store, client: client, observer: observer, canRenew: client.canRenew,
                limits: RenewalLimits(plan.timeouts), clock: { .now }, flightClock: { flightClock.now })
            services += [
                TokenClientService(client: client), SessionStoreService(store: sessions.store),
                SessionRenewerService(renewer: sessionRenewer),
            ]
            renewer = sessionRenewer
            ownEndpoints = AccountEndpoints(
                store: sessions.store, client: client, observer: observer, session: plan.session,
                accounts: plan.accounts, accounts: sessions.accounts)
        } else {
            services.append(SessionStoreService(store: sessions.store))
            renewer = NoRenewal()
            ownEndpoints = NoOwnEndpoints()
        }

        let tables = try GatewayTables(
            plan: plan, sessions: sessions.store, renewer: renewer, ownEndpoints: ownEndpoints, telemetry: telemetry,
            tracer: plan.tracing.exporter == .none ? nil : telemetry.tracer, logger: logger, sessionClock: clock)
        let server = GatewayServer(tables: tables, logger: logger) { listeners in
            for listener in listeners {
                logger.notice(
                    "listening", metadata: ["address": "\(listener.address)", "tls": "\(listener.isTLS)"])
            }
            await onListening(listeners)
        }
        self.server = server
        if let admin = plan.admin {
            services.append(
                AdminServer(
                    host: admin.address.host, port: admin.address.port, registry: telemetry.registry,
                    probes: [
                        ReadinessProbe(name: "listening") {
                            ReadinessCheck(name: "listening", isReady: server.isReady)
                        },
                        sessions.probe(plan.session),
                    ],
                    revocation: admin.token.map {
                        SessionRevocation(
                            token: $0, sessions: SessionRevoker(sessions: sessions.store, observer: observer),
                            now: { clock.now })
                    },
                    logger: logger
                ) { port in
                    let address = HostAndPort(host: admin.address.host, port: port)
                    logger.notice("listening for operators", metadata: ["address": "\(address)"])
                    await onAdminListening(port)
                })
        }
        self.services = services
    }

    /// Serves until it is told to stop by a signal or by its task's cancellation. What was started last ends first, so
    /// that clients are served to the end by everything they need.
    func run() async throws {
        // Behind the clients' last exchanges come the renewals that are under way, each with a lease's time at most.
        let grace = plan.timeouts.drain + RenewalLimits(plan.timeouts).lease + .seconds(5)
        var configuration = ServiceGroupConfiguration(
            services: (services + [server]).map {
                .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup)
            },
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = grace
        configuration.maximumCancellationDuration = .seconds(10)
        await SecondSignal.watch(telemetry)
        defer { telemetry.shutdown() }
        try await ServiceGroup(configuration: configuration).run()
        logger.notice("stopped")
    }
}

extension TelemetrySettings {
    /// What a plan says about logs and traces.
    init(_ plan: GatewayPlan) {
        self.init()
        version = Cloakroom.version
        logFormat = plan.logging.format == .json ? .json : .text
        logLevel = Logger.Level(rawValue: plan.logging.level) ?? .info
        isAccessLogEnabled = plan.logging.accessLog
        sampler = TraceSampler(plan.tracing.sampler)
        areSpansLogged = plan.tracing.exporter == .log
    }
}
