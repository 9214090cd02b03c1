import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Logging
import NIOCore
import NIOSSL

/// Runtime state of an upstream. A class for the same reason as ``RouteRuntime``.
final class UpstreamRuntime: Sendable {
    let configuration: UpstreamConfiguration
    let targets: [TargetRuntime]
    /// Selects one of ``targets``.
    let selector: UpstreamTargets
    /// Index of its first target in ``ConfigSnapshot/targets``.
    let firstTarget: Int
    /// Its API token; `nil` without one.
    let apiToken: Secret?
    /// The field line with its API token and line end; empty without one.
    let apiTokenLine: [UInt8]
    /// `Host` value of each target.
    let hosts: [[UInt8]]
    let activeConnections: GaugeHandle
    let idleConnections: GaugeHandle
    let pendingRequests: GaugeHandle
    let retries: CounterHandle
    let replays: CounterHandle
    private let injectedNames: CounterHandle
    private let injectedValues: CounterHandle
    private let siteData: CounterHandle

    init(_ configuration: UpstreamConfiguration, _ selector: UpstreamTargets, firstTarget: Int, metrics: GatewayMetrics)
    {
        self.configuration = configuration
        self.selector = selector
        targets = selector.entries
        self.firstTarget = firstTarget
        apiToken = configuration.apiToken?.value
        apiTokenLine =
            configuration.apiToken.map { Array("\($0.header): ".utf8) + $0.value.bytes + [0x0d, 0x0a] } ?? []
        hosts = configuration.targets.map { Array($0.hostField.utf8) }
        activeConnections = metrics.upstreamConnections(upstream: configuration.name, state: .active)
        idleConnections = metrics.upstreamConnections(upstream: configuration.name, state: .idle)
        pendingRequests = metrics.upstreamPendingRequests(upstream: configuration.name)
        retries = metrics.upstreamRetries(upstream: configuration.name, reason: "stale_connection")
        replays = metrics.upstreamRetries(upstream: configuration.name, reason: "rejected_token")
        injectedNames = metrics.removedResponseFields(upstream: configuration.name, reason: "injected_name")
        injectedValues = metrics.removedResponseFields(upstream: configuration.name, reason: "injected_value")
        siteData = metrics.removedResponseFields(upstream: configuration.name, reason: "clear_site_data")
    }

    /// Counts fields removed from a response.
    func count(_ removed: RemovedResponseFields) {
        injectedNames.increment(by: Int64(removed.injectedNames))
        injectedValues.increment(by: Int64(removed.injectedValues))
        siteData.increment(by: Int64(removed.siteData))
    }
}

extension UpstreamRuntime {
    /// Current status, for operators.
    var status: UpstreamStatus { status(now: NIODeadline.now().uptimeNanoseconds) }

    /// Status for operators.
    /// - Parameter now: Nanoseconds of the event loops' clock (`NIODeadline`).
    func status(now: UInt64) -> UpstreamStatus {
        UpstreamStatus(name: configuration.name, targets: targets.map { $0.status(now: now) })
    }
}

extension TargetRuntime {
    /// Status for operators.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func status(now: UInt64) -> UpstreamStatus.Target {
        UpstreamStatus.Target(
            address: address, circuit: circuit.state(now: now), lastFailure: circuit.lastFailure)
    }
}

/// Runtime state of a target, shared by all event loops.
final class TargetRuntime: Sendable {
    /// The endpoint to connect to.
    enum Endpoint: Sendable {
        case address(SocketAddress)
        case name(TargetResolver)
        case socket(path: String)
    }

    /// TLS settings of its connections.
    struct TLS: Sendable {
        let context: NIOSSLContext
        /// Name for SNI and verification; `nil` verifies the IP address.
        let serverName: String?
    }

    /// Name of the target for operators: `http://host:port`, `https://host:port` or `unix:/path`.
    let address: String
    let endpoint: Endpoint
    /// `nil` without TLS.
    let tls: TLS?
    let log: ConnectFailureLog
    /// Result of the last connection attempt.
    let circuit = CircuitStatus()

    /// - Parameter tls: The context shared by all `https` targets of the upstream.
    init(
        _ target: UpstreamTargetConfiguration, of upstream: UpstreamConfiguration, tls: NIOSSLContext?,
        resolver: HostResolver,
        logger: Logger
    ) {
        address = target.description
        var serverName: String?
        switch target.address {
        case .unixSocket(let path):
            endpoint = .socket(path: path)
        case .tcp(let address):
            if let known = try? SocketAddress(ipAddress: address.host, port: address.port) {
                endpoint = .address(known)
            } else {
                endpoint = .name(
                    TargetResolver(
                        host: address.host, port: address.port, interval: upstream.resolveInterval.wholeNanoseconds,
                        resolver: resolver))
                // Certificates and SNI have no trailing dot (RFC 6066 §3).
                serverName = address.host.hasSuffix(".") ? String(address.host.dropLast()) : address.host
            }
        }
        if target.scheme == .https, let tls {
            self.tls = TLS(context: tls, serverName: upstream.tls?.serverName ?? serverName)
        } else {
            self.tls = nil
        }
        var logger = logger
        logger[metadataKey: "upstream"] = "\(upstream.name)"
        logger[metadataKey: "target"] = "\(target)"
        log = ConnectFailureLog(logger)
    }

    /// A connection was established.
    func connectSucceeded() {
        circuit.succeeded()
    }

    /// A connection attempt failed. Logs the failure, at most once per 10 s, and records it for operators.
    /// - Parameters:
    ///   - now: Nanoseconds of a monotonic clock.
    ///   - time: The same time by the wall clock.
    ///   - backOffEnd: End of the back-off, by the clock of `now`.
    func failed(
        _ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64, time: Timestamp, backOffEnd: UInt64
    ) {
        // The addresses of the host may have changed.
        if case .name(let addresses) = endpoint { addresses.markSuspect() }
        log.failed(kind, error, now: now)
        circuit.failed(kind, error, at: time, backOffEnd: backOffEnd)
    }
}
