public import CloakroomAdmin
import CloakroomConfig
import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTelemetry
import Glibc
import Logging
import ServiceLifecycle
import Synchronization
import Tracing

/// The composition root: the only place that creates the components of all modules and connects them.
///
/// Folder `Composition/`: creates the components of all modules from a configuration and runs their services in order.
final class Gateway: Sendable, Unprintable {
    /// The configuration at the start of the process, with limits that fit the descriptors.
    let configuration: GatewayConfiguration
    let telemetry: GatewayTelemetry
    private let parts: SharedComponents
    private let descriptors: DescriptorBudget
    private let server: GatewayServer
    private let accounts: IdentityService
    private let services: [any Service]
    private let probes: [ReadinessProbe]

    /// Components that live as long as the process and are shared by all configurations.
    private struct SharedComponents {
        let sessions: SessionStoreSetup
        let observer: AccountEventRecorder
        let clock: SessionClock
        let telemetry: GatewayTelemetry
        let tracer: (any Tracer)?
        let logger: Logger
        let counts = ClientCounts()

        func accounts(
            _ configuration: GatewayConfiguration, _ targets: [UpstreamTargets], previous: IdentityComponents? = nil
        ) throws -> IdentityComponents {
            try IdentityComponents(
                configuration, targets: targets, sessions: sessions, observer: observer, sessionClock: clock,
                tracer: tracer, counts: counts, previous: previous)
        }

        func config(
            _ configuration: GatewayConfiguration, _ accounts: IdentityComponents, _ targets: [UpstreamTargets],
            _ previous: ConfigSnapshot? = nil
        ) async throws -> ConfigSnapshot {
            try await FileFolder.onScanThread {
                try ConfigSnapshot(
                    configuration: configuration, sessions: sessions.store, refresher: accounts.refresher,
                    exchanger: accounts.exchanger, tokens: accounts.tokens, assertions: sessions.assertions,
                    accountEndpoints: accounts.accountEndpoints,
                    telemetry: telemetry, tracer: tracer, logger: logger, sessionClock: clock,
                    rateStorage: sessions.rateLimits, devices: sessions.devices, previous: previous,
                    upstreamTargets: targets)
            }
        }
    }

    /// Creates all components of a configuration.
    /// - Parameters:
    ///   - sharesListeners: Whether to share listener addresses with a running gateway, in order to replace it.
    ///   - inherited: Sockets of the service manager for its listeners.
    ///   - configStatus: Returns the configuration status for the status page.
    ///   - onListening: Is called with the bound listeners, before the first connection is accepted.
    ///   - onAdminListening: Is called with the port of the admin listener.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS with an upstream or the session store is invalid,
    ///   ``FileDescriptorError`` if there are too few descriptors.
    init(
        configuration configured: GatewayConfiguration, telemetry: GatewayTelemetry, sharesListeners: Bool = false,
        inherited: InheritedSockets = InheritedSockets(),
        configStatus: @escaping @Sendable () -> ConfigStatus,
        onListening: @escaping @Sendable ([GatewayServer.BoundListener]) async -> Void = { _ in },
        onAdminListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) async throws {
        self.telemetry = telemetry
        let logger = Logger(label: "cloakroom") { telemetry.makeLogHandler(label: $0) }
        StartNotice.write(configured, configStatus(), to: logger)
        let descriptors = try FileDescriptorLimit.raised().budget(for: configured)
        self.descriptors = descriptors
        let configuration = descriptors.fit(configured, logger: logger)
        self.configuration = configuration
        let observer = AccountEventRecorder(metrics: telemetry.metrics, audit: AuditLog(logger: logger))
        let clock = SessionClock(isMonotonic: configuration.session.store != .valkey)
        let sessions = try SessionStoreSetup(
            configuration.session, observer: observer,
            telemetry: telemetry,
            clock: clock, logger: logger)
        let parts = SharedComponents(
            sessions: sessions, observer: observer, clock: clock, telemetry: telemetry,
            tracer: configuration.tracing.exporter == .none ? nil : telemetry.tracer, logger: logger)
        self.parts = parts

        let targets = try UpstreamTargets.make(configuration, keeping: [], logger: logger)
        let first = try parts.accounts(configuration, targets)
        let accounts = IdentityService(first)
        self.accounts = accounts
        let config: ConfigSnapshot
        do {
            config = try await parts.config(configuration, first, targets)
        } catch {
            await first.shutdown()
            throw error
        }
        let server = GatewayServer(
            config: config, sharesListeners: sharesListeners, inherited: inherited, logger: logger
        ) { listeners in
            for listener in listeners {
                logger.notice(
                    "listening",
                    metadata: ["address": "\(listener.address)", "tls": .stringConvertible(listener.isTLS)])
            }
            await onListening(listeners)
        }
        self.server = server
        let probes = [
            ReadinessProbe(name: "listening") { server.isReady }, sessions.probe(configuration.session),
        ]
        self.probes = probes
        let circuits = CircuitMetricsUpdater(telemetry.metrics)
        telemetry.registry.onScrape {
            circuits.show(server.upstreamStatus())
            telemetry.metrics.identities.show(accounts.current.identityStatus, now: .now)
        }

        // In start order: each service needs only those before it. See ``run(beside:)``.
        var services: [any Service] = [
            SpanExportService(telemetry: telemetry), SessionStoreService(store: sessions.store), accounts,
        ]
        if let admin = configuration.admin {
            let adminTLS = try admin.tls.map {
                try AdminListenerTLS($0, address: admin.address, registry: telemetry.registry, logger: logger)
            }
            services.append(
                AdminServer(
                    host: admin.address.host, port: admin.address.port, registry: telemetry.registry,
                    probes: probes,
                    revocation: admin.token.map {
                        RevokeSessionsHandler(
                            token: $0,
                            sessions: SessionRevoker(
                                sessions: sessions.store, observer: observer,
                                source: { accounts.current.source ?? .unknown },
                                revoke: { accounts.current.revoke($0) }),
                            nameKind: { accounts.current.nameKind },
                            now: { clock.now })
                    },
                    status: StatusDataSource(
                        config: configStatus, routes: { server.currentConfig.configuration.routeSummaries },
                        upstreams: { server.upstreamStatus() },
                        identities: { accounts.current.identityStatus }, identityCalls: { observer.calls.failures },
                        certificates: { server.certificates() + (adminTLS?.certificates ?? []) },
                        isDraining: { server.isDraining },
                        store: configuration.session.store.rawValue, version: Cloakroom.version,
                        commit: Cloakroom.commit),
                    access: AdminAccess(admin), rejectedRequests: telemetry.rejectedRequests,
                    tls: adminTLS,
                    now: { .now }, logger: logger
                ) { port in
                    let address = HostAndPort(host: admin.address.host, port: port)
                    logger.notice(
                        "admin listener started",
                        metadata: ["address": "\(address)", "tls": .stringConvertible(admin.tls != nil)])
                    await onAdminListening(port)
                })
        }
        self.services = services + [ClientListenersService(server: server, store: sessions.store)]
    }

    /// Applies another configuration atomically while the gateway serves. The configuration must not change keys that
    /// require a restart.
    /// - Throws: If the configuration cannot be applied; the previous one then stays in effect.
    func apply(_ configuration: GatewayConfiguration) async throws {
        let configuration = descriptors.fit(configuration, logger: parts.logger)
        let targets = try UpstreamTargets.make(configuration, keeping: server.upstreamTargets(), logger: parts.logger)
        let previous = accounts.current
        let next = try parts.accounts(configuration, targets, previous: previous)
        do {
            let config = try await parts.config(configuration, next, targets, server.currentConfig)
            try await server.apply(config) { previous.end() }
        } catch {
            await next.shutdown()
            throw error
        }
        accounts.replace(with: next)
        if let level = Logger.Level(rawValue: configuration.logging.level) { telemetry.setLogLevel(level) }
    }

    /// Returns when every event loop has run a task; never returns while one is blocked.
    func passThroughLoops() async { await server.passThroughLoops() }

    /// What `/ready` of the admin listener reports.
    func isReady() async -> Bool { await ReadinessReport.make(probes).isReady }

    /// Records the outcome of a configuration reload in the metrics and the audit log.
    func noteReload(_ outcome: ReloadOutcome) {
        telemetry.metrics.config.recordReload(isSuccess: outcome.isSuccess, now: outcome.time)
        parts.observer.audit.configReloaded(hash: outcome.hash, problems: outcome.problems)
        noteWarnings(outcome.warnings)
    }

    /// Logs at most 20 warnings about the current configuration, and the number of further ones.
    func noteWarnings(_ warnings: [String]) {
        let bound = 20
        for warning in warnings.prefix(bound) {
            parts.logger.warning(
                "configuration warning",
                metadata: ["event": "config_warning", "problem": "\(warning.prefix(500))"])
        }
        guard warnings.count > bound else { return }
        parts.logger.warning(
            "further configuration warnings omitted; check-config prints all of them",
            metadata: ["event": "config_warning", "count": .stringConvertible(warnings.count - bound)])
    }

    /// Serves until a signal or cancellation of the task stops it. Services end in the reverse of their start order, so
    /// that requests in flight can still use the services they need.
    /// - Parameter others: Further services, which start last and end first, such as the one that calls ``apply(_:)``.
    func run(beside others: [any Service] = []) async throws {
        // After the last requests complete, token refreshes in progress take at most the duration of a lease, followed
        // by the export of the last spans.
        let grace =
            configuration.timeouts.drain + RefreshTimeouts(configuration.timeouts).lease
            + OTLPSpanExporter.shutdownTimeout + .seconds(5)
        let all = services + others
        var configuration = ServiceGroupConfiguration(
            services: all.map {
                .init(service: NamedService(service: $0), successTerminationBehavior: .gracefullyShutdownGroup)
            }, logger: parts.logger)
        configuration.maximumGracefulShutdownDuration = grace
        configuration.maximumCancellationDuration = .seconds(10)
        let group = ServiceGroup(configuration: configuration)
        await ShutdownSignals.watch(for: group, telemetry)
        defer { telemetry.shutdown() }
        try await group.run()
        parts.logger.notice("stopped")
    }
}

/// A service whose description is the name of its type. swift-service-lifecycle logs descriptions of services.
struct NamedService: Service, Unprintable {
    let service: any Service

    var description: String { "\(type(of: service))" }
    var debugDescription: String { description }

    func run() async throws {
        try await service.run()
    }
}

extension AdminListenerTLS: AdminTLS {}

extension TelemetrySettings {
    /// The telemetry settings of a configuration.
    /// - Parameter isTerminal: Whether log lines are written to a terminal, for which they are text by default.
    init(_ configuration: GatewayConfiguration, isTerminal: Bool = isatty(STDOUT_FILENO) == 1) {
        self.init()
        version = Cloakroom.version
        commit = Cloakroom.commit
        // Metrics can be read only through the admin listener.
        isMetricsEnabled = configuration.admin != nil
        logFormat = configuration.logging.format ?? (isTerminal ? .text : .json)
        logLevel = Logger.Level(rawValue: configuration.logging.level) ?? .info
        isAccessLogEnabled = configuration.logging.accessLog
        buckets = configuration.metrics.buckets
        tracing = configuration.tracing
    }
}
