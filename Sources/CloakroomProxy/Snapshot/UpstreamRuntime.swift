import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import Logging
import NIOCore
import NIOSSL
import Synchronization

/// Runtime state of an upstream. A class for the same reason as ``RouteRuntime``.
final class UpstreamRuntime: Sendable {
    let configuration: UpstreamConfiguration
    /// Its targets, and the board that selects among them.
    let targets: UpstreamTargets
    /// Index of its first configured target in ``ConfigSnapshot/targets``.
    let firstTarget: Int
    /// Its API token; `nil` without one.
    let apiToken: Secret?
    /// The field line with its API token and line end; empty without one.
    let apiTokenLine: [UInt8]
    /// What precedes a session's token in its field line; `nil` for `Authorization: Bearer`.
    let bearerStart: [UInt8]?
    /// The fields with claims of the user; `nil` if there are none.
    let claimHeaders: ClaimHeaders?
    /// `Host` value of each target.
    let hosts: [[UInt8]]
    let metrics: UpstreamMetrics
    /// By index of the configured target.
    let targetMetrics: [UpstreamTargetMetrics]
    /// Of the targets with host names whose addresses are targets, by index.
    let dnsMetrics: [Int: UpstreamDNSMetrics]

    init(
        _ configuration: UpstreamConfiguration, _ targets: UpstreamTargets, firstTarget: Int,
        claimHeaders: ClaimHeaders? = nil, metrics: GatewayMetrics
    ) {
        self.configuration = configuration
        self.claimHeaders = claimHeaders
        self.targets = targets
        self.firstTarget = firstTarget
        apiToken = configuration.apiToken?.value
        apiTokenLine =
            configuration.apiToken.map { Array("\($0.header): ".utf8) + $0.value.bytes + [0x0d, 0x0a] } ?? []
        let bearer = configuration.bearer
        bearerStart = bearer.isDefault ? nil : Array("\(bearer.header): \(bearer.prefix)".utf8)
        hosts = configuration.targets.map { Array($0.hostField.utf8) }
        let own = metrics.upstream(configuration.name, hasHTTP2: configuration.protocolVersion.allowsHTTP2)
        self.metrics = own
        targetMetrics = configuration.targets.map { own.target($0.description) }
        dnsMetrics = targets.names.withLock { names in
            var metrics: [Int: UpstreamDNSMetrics] = [:]
            for index in names.keys {
                let target = configuration.targets[index].description
                metrics[index] = own.dns(target: target, interval: configuration.dns.interval)
            }
            return metrics
        }
    }

    /// The counters of a target.
    func metrics(of target: TargetIdentity) -> UpstreamTargetMetrics? {
        let index = configuration.targets.firstIndex {
            $0.serverAddress == target.host && ($0.serverPort ?? 0) == target.port && $0.scheme == target.scheme
        }
        return index.map { targetMetrics[$0] }
    }
}

extension UpstreamRuntime {
    /// Status for operators.
    /// - Parameter now: Nanoseconds of the event loops' clock (`NIODeadline`).
    func status(now: UInt64) -> UpstreamStatus {
        let board = targets.board
        let stale = configuration.dns.interval.wholeNanoseconds.multipliedReportingOverflow(by: 10)
        return UpstreamStatus(
            name: configuration.name,
            targets: targets.targets.targets.sorted { $0.index < $1.index }.map {
                $0.status(board.condition(of: $0.state, now: now), now: now)
            },
            isPanicking: board.isPanicking,
            isRetryBudgetSpent: configuration.retry.isEnabled && board.budget.isReplenished
                && board.budget.available == 0,
            // A name may be that of several targets.
            staleNames: Set(
                targets.names.withLock { Array($0.keys) }
                    .filter { !stale.overflow && targets.addressAge(of: $0, now: now) > stale.partialValue }
                    .map { configuration.targets[$0].serverAddress }
            ).sorted())
    }
}

extension TargetRuntime {
    /// Status for operators.
    /// - Parameter now: Nanoseconds of a monotonic clock.
    func status(_ condition: TargetCondition = .up, now: UInt64) -> UpstreamStatus.Target {
        let word = state.word
        let circuit: CircuitState = word.isUsable ? .closed : word.canProbe(now: now) ? .halfOpen : .open
        let left = MonotonicMilliseconds(now).elapsed(until: word.until)
        let time = LoopClock().wallTime(at: now)
        return UpstreamStatus.Target(
            address: target, peer: state.identity.address.map { "\($0):\(state.identity.port)" }, circuit: circuit,
            condition: condition, reason: condition.reason,
            until: word.circuit == .closed || left <= 0 ? nil : time + .milliseconds(Int64(left)),
            inFlight: state.inFlight, lastFailure: failures.last)
    }
}

extension TargetCondition {
    /// Why a target is in this condition, for operators; `nil` if there is nothing to add.
    fileprivate var reason: String? {
        switch self {
        case .up: nil
        case .warming: "slow start"
        case .ejected: "requests failed"
        case .backingOff: "no connection"
        case .down: "health checks failed"
        case .draining: "weight 0"
        }
    }
}

/// What is needed to connect to a target. Shared by all event loops.
final class TargetRuntime: Sendable {
    enum Endpoint: Sendable {
        case address(SocketAddress)
        case name(TargetResolver)
        case socket(path: String)
    }

    /// TLS settings of its connections.
    struct TLS: Sendable {
        let context: NIOSSLContext
        /// The context that offers HTTP/2; `nil` if the upstream does not use it.
        let http2Context: NIOSSLContext?
        /// Name for SNI and verification; `nil` verifies the IP address.
        let serverName: String?

        /// The context for connections of an HTTP version.
        func context(for version: UpstreamProtocol) -> NIOSSLContext {
            version.allowsHTTP2 ? http2Context ?? context : context
        }
    }

    /// What event loops share about it.
    let state: TargetState
    /// Its index in the configuration, which several addresses of one host name share.
    let index: Int
    /// Name of the configured target for operators: `http://host:port`, `https://host:port` or `unix:/path`.
    let target: String
    let endpoint: Endpoint
    /// `nil` without TLS.
    let tls: TLS?
    let failures: ConnectFailureLog
    /// Its resolved address; `nil` if it is no address of a host name.
    let peer: UpstreamPeer?
    private let hasConnection = Atomic<Bool>(false)
    private let logger: Logger
    /// Until when its HTTP/1.1 connections serve one request each, in nanoseconds of a monotonic clock.
    private let singleUseUntil = Atomic<UInt64>(0)
    private let excessLines = LogRateLimiter()
    /// For how long they do so after bytes that belong to no request, in nanoseconds.
    static let singleUseTime: UInt64 = 60_000_000_000

    /// - Parameters:
    ///   - index: Its index in the configuration.
    ///   - tls: The context shared by all `https` targets of the upstream.
    ///   - http2TLS: The same for connections that offer HTTP/2; `nil` if the upstream does not use it.
    init(
        _ state: TargetState, at endpoint: Endpoint, index: Int, of upstream: UpstreamConfiguration,
        tls: NIOSSLContext?, http2TLS: NIOSSLContext?, logger: Logger
    ) {
        self.state = state
        self.index = index
        self.endpoint = endpoint
        let target = upstream.targets[index]
        let identity = state.identity
        peer = identity.address.flatMap { UpstreamPeer(address: $0, port: UInt16(clamping: identity.port)) }
        self.target = target.description
        if target.scheme == .https, let tls {
            self.tls = TLS(context: tls, http2Context: http2TLS, serverName: identity.tlsName)
        } else {
            self.tls = nil
        }
        var logger = logger
        logger[metadataKey: "upstream"] = "\(upstream.name)"
        logger[metadataKey: "target"] = "\(target)"
        if let address = identity.address { logger[metadataKey: "peer"] = "\(address)" }
        failures = ConnectFailureLog(logger)
        self.logger = logger
    }

    /// Whether it is a host name as a whole, until a connection to it is established.
    var isWholeName: Bool { if case .name = endpoint { state.identity.address == nil } else { false } }

    var wasConnected: Bool { hasConnection.load(ordering: .relaxed) }

    func connected() { hasConnection.store(true, ordering: .relaxed) }

    /// Whether an HTTP/1.1 connection to it may serve another request.
    func mayReuseConnections(now: UInt64) -> Bool { now >= singleUseUntil.load(ordering: .relaxed) }

    /// It sent bytes that belong to no request. On a connection that is used again, such bytes would become the response to
    /// another client (RFC 9112 §6.3). Logged at most once per 10 s.
    func sentExcessBytes(now: UInt64) {
        singleUseUntil.store(now &+ Self.singleUseTime, ordering: .relaxed)
        guard let suppressed = excessLines.allow(at: now) else { return }
        logger.warning(
            "upstream sent bytes after a response; its connections are used for one request each",
            metadata: [
                "seconds": "\(Self.singleUseTime / 1_000_000_000)", "suppressed": .stringConvertible(suppressed),
            ])
    }

    /// Records a failed connection attempt for operators, and logs it at most once per 10 s.
    /// - Parameters:
    ///   - now: Nanoseconds of a monotonic clock.
    ///   - time: The same time by the wall clock.
    func record(_ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64, time: WallTime) {
        // The addresses of the host may have changed.
        if kind != .noResources, case .name(let addresses) = endpoint { addresses.markSuspect() }
        failures.failed(kind, error, now: now, time: time)
    }
}
