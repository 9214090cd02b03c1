public import CloakroomCore
public import CloakroomTLS
import CloakroomWire
public import Logging
import NIOCore
import NIOSSL
import Synchronization

/// The targets of one upstream under one configuration: what is needed to connect to them, and the board that selects
/// among them. Shared by requests on all event loops, identity requests and health checks.
public final class UpstreamTargets: Sendable {
    let configuration: UpstreamConfiguration
    let board: UpstreamBoard
    let permits: Permits
    /// Those of connections that carry WebSockets to an upstream with HTTP/2, which use HTTP/1.1; `nil` if there are none.
    private let tunnelPermits: Permits?
    private let tls: NIOSSLContext?
    /// The context that offers HTTP/2; `nil` if the upstream does not use it.
    private let http2TLS: NIOSSLContext?
    /// The versions of the TLS files that ``tls`` was created from.
    private let fingerprints: [FileFingerprint?]
    /// Where each configured target is.
    let endpoints: [TargetRuntime.Endpoint]
    /// The host names whose addresses are targets, by index of the configured target.
    let names: Mutex<[Int: ResolvedName]>
    private let logger: Logger
    private let current: Mutex<TargetSet>
    /// The targets under the previous configuration, until ``activate(now:)``.
    private let adopted: Mutex<UpstreamTargets?>
    /// Settings of the pools that do not belong to the upstream: pools of others would share the permits of a loop.
    let poolSettings: PoolSettings

    /// Limits of connections, and of requests that wait for one, of all event loops together.
    struct Permits: Sendable {
        let connections, queue: SharedPermits

        init(_ pool: PoolConfiguration, loops: Int) {
            connections = SharedPermits(maximum: pool.maxConnections, loops: loops)
            queue = SharedPermits(maximum: pool.maxPending, loops: loops)
        }
    }

    /// What pools use besides the configuration of their upstream.
    struct PoolSettings: Equatable {
        /// Timeout of a connection attempt, in nanoseconds.
        let connect: UInt64
        /// Timeout of a response head: with ``connect``, the time after which a probe without a result is lost.
        let responseHead: Duration
        /// Limits of response heads.
        let headLimits: HeadLimits

        init(_ timeouts: TimeoutsConfiguration, _ limits: LimitsConfiguration) {
            connect = timeouts.connect.wholeNanoseconds
            responseHead = timeouts.responseHead
            headLimits = HeadLimits(limits)
        }
    }

    /// - Parameters:
    ///   - adopted: The targets of the upstream under the previous configuration. The states of targets that stay are
    ///     shared; they are changed only by ``activate(now:)``.
    ///   - loops: The number of event loops.
    ///   - timeouts: The timeouts of connections and response heads: a probe without a result after both is lost.
    ///   - limits: The limits of response heads.
    ///   - resolver: Resolves the host names of targets.
    ///   - logger: Logs why a target cannot be reached, at most once per 10 s and target.
    /// - Throws: ``UpstreamTLSError`` if a file for TLS is invalid.
    public init(
        _ configuration: UpstreamConfiguration, adopting adopted: UpstreamTargets? = nil, loops: Int = 1,
        timeouts: TimeoutsConfiguration = .defaults, limits: LimitsConfiguration = .defaults,
        resolver: HostResolver = .system, logger: Logger
    ) throws(UpstreamTLSError) {
        self.configuration = configuration
        poolSettings = PoolSettings(timeouts, limits)
        self.logger = logger
        self.adopted = Mutex(adopted)
        fingerprints = Self.fingerprints(configuration)
        let usesTLS = configuration.targets.contains { $0.scheme == .https }
        tls = usesTLS ? try UpstreamTLS.context(configuration.tls) : nil
        let version = configuration.protocolVersion
        http2TLS =
            usesTLS && version.allowsHTTP2
            ? try UpstreamTLS.context(configuration.tls, protocols: version == .auto ? ["h2", "http/1.1"] : ["h2"])
            : nil
        permits = Permits(configuration.pool, loops: loops)
        tunnelPermits = version.allowsHTTP2 ? Permits(configuration.pool, loops: loops) : nil
        endpoints = configuration.targets.map { target in
            switch target.address {
            case .unixSocket(let path): return .socket(path: path)
            case .tcp(let address):
                if let known = try? SocketAddress(ipAddress: address.host, port: address.port) {
                    return .address(known)
                }
                return .name(
                    TargetResolver(
                        host: address.host, port: address.port, interval: configuration.dns.interval.wholeNanoseconds,
                        resolver: resolver))
            }
        }
        let names = Self.names(configuration, adopting: adopted)
        self.names = Mutex(names)
        board = UpstreamBoard(
            name: configuration.name,
            settings: BoardSettings(
                balance: configuration.balance, eject: configuration.eject, inFlight: configuration.inFlight,
                retry: configuration.retry,
                probeTime: timeouts.connect + timeouts.responseHead),
            targets: Self.specifications(configuration, names: names) { _ in
                // New targets next to others that are checked already need a passed check, as new addresses do.
                adopted?.configuration.health != nil && configuration.health != nil
            },
            adopting: adopted?.board, now: NIODeadline.now().uptimeNanoseconds)
        current = Mutex(TargetSet(board.table, []))
        let set = makeSet(board.table, keeping: [])
        current.withLock { $0 = set }
    }

    /// The targets of all upstreams of a configuration. Those of upstreams that have not changed are kept.
    public static func make(
        _ configuration: GatewayConfiguration, keeping previous: [UpstreamTargets], logger: Logger
    ) throws(UpstreamTLSError) -> [UpstreamTargets] {
        var result: [UpstreamTargets] = []
        for upstream in configuration.upstreams {
            let old = previous.first { $0.configuration.name == upstream.name }
            let settings = PoolSettings(configuration.timeouts, configuration.limits)
            if let old, old.isUnchanged(upstream, settings) {
                result.append(old)
            } else {
                result.append(
                    try UpstreamTargets(
                        upstream, adopting: old, loops: configuration.eventLoops ?? System.coreCount,
                        timeouts: configuration.timeouts, limits: configuration.limits, logger: logger))
            }
        }
        return result
    }

    /// Whether a configuration is the same one, with the same TLS files.
    private func isUnchanged(_ other: UpstreamConfiguration, _ settings: PoolSettings) -> Bool {
        configuration == other && settings == poolSettings && fingerprints == Self.fingerprints(other)
    }

    private static func fingerprints(_ configuration: UpstreamConfiguration) -> [FileFingerprint?] {
        let tls = configuration.tls
        return [tls?.caFile, tls?.clientCertificate?.certificateFile, tls?.clientCertificate?.keyFile].map {
            $0.flatMap { FileFingerprint(of: $0) }
        }
    }

    /// The permits of a pool.
    /// - Parameter forTunnels: Whether it is the one for WebSockets of an upstream with HTTP/2.
    func permits(forTunnels: Bool) -> Permits {
        forTunnels ? tunnelPermits ?? permits : permits
    }

    var targets: TargetSet { current.withLock { $0 } }

    /// The configuration is in effect: its settings apply to the shared states.
    func activate(now: UInt64) {
        let previous = adopted.withLock { $0.take() }
        board.activate(now: now)
        // Its names may have been resolved since they were copied. From now on its results change nothing.
        guard let previous else { return }
        let latest = Self.names(configuration, adopting: previous)
        let old = names.withLock { names in
            defer { names = latest }
            return names
        }
        if old.mapValues(\.targets) != latest.mapValues(\.targets) { replaceTargets(now: now) }
    }

    // MARK: - Targets

    /// One target for each address of a resolved name, and for each other configured target.
    ///
    /// If they are more than a table can have, each configured target has one before another one has a second, and so on.
    /// - Parameter startsDown: Whether a target that has no state yet needs a passed check, by its configured index.
    private static func specifications(
        _ configuration: UpstreamConfiguration, names: [Int: ResolvedName], startsDown: (Int) -> Bool
    ) -> [TargetSpecification] {
        let addresses = configuration.targets.indices.map { names[$0]?.targets ?? [] }
        var counts = addresses.map { max($0.count, 1) }
        if counts.reduce(0, +) > TargetTable.maxCount { counts = fairCounts(counts) }
        return configuration.targets.indices.flatMap { index in
            let startsDown = startsDown(index)
            guard !addresses[index].isEmpty else {
                return [specification(configuration, index, address: nil, startsDown: startsDown)]
            }
            return addresses[index].prefix(counts[index]).map {
                specification(configuration, index, address: $0, startsDown: startsDown)
            }
        }
    }

    /// Numbers of entries that are together at most ``TargetTable/maxCount``.
    static func fairCounts(_ wanted: [Int]) -> [Int] {
        var counts = wanted.map { _ in 0 }
        var left = TargetTable.maxCount
        while left > 0,
            let least = counts.indices.filter({ counts[$0] < wanted[$0] }).min(by: { counts[$0] < counts[$1] })
        {
            counts[least] += 1
            left -= 1
        }
        return counts
    }

    private static func specification(
        _ configuration: UpstreamConfiguration, _ index: Int, address: String?, startsDown: Bool
    ) -> TargetSpecification {
        let target = configuration.targets[index]
        var tlsName: String?
        if target.scheme == .https {
            tlsName = configuration.tls?.serverName
            let host = target.serverAddress
            // IP addresses are verified as such.
            if tlsName == nil, (try? SocketAddress(ipAddress: host, port: 0)) == nil {
                // Certificates and SNI have no trailing dot (RFC 6066 §3).
                tlsName = host.hasSuffix(".") ? String(host.dropLast()) : host
            }
        }
        let isOtherZone = configuration.zone != nil && target.zone != nil && configuration.zone != target.zone
        return TargetSpecification(
            TargetIdentity(
                upstream: configuration.name, scheme: target.scheme, host: target.serverAddress,
                port: target.serverPort ?? 0, address: address, tlsName: tlsName),
            weight: target.weight, tier: target.tier, isOtherZone: isOtherZone, configurationIndex: index,
            startsDown: startsDown)
    }

    /// Replaces the targets after the addresses of a name have changed. If targets are checked, a new address gets no
    /// request before a check of it has passed; except those of a name that was one target until now, because it has been
    /// checked and its addresses are in use.
    func replaceTargets(now: UInt64) {
        let upNames = Set(targets.targets.filter { $0.isWholeName && !$0.state.word.isDown }.map(\.index))
        let specifications = Self.specifications(configuration, names: names.withLock { $0 }) { index in
            configuration.health != nil && !upNames.contains(index)
        }
        let table = board.replaceTargets(specifications, now: now)
        current.withLock { $0 = makeSet(table, keeping: $0.targets) }
    }

    private func makeSet(_ table: TargetTable, keeping old: [TargetRuntime]) -> TargetSet {
        TargetSet(
            table,
            table.entries.map { entry in
                if let known = old.first(where: { $0.state === entry.state }) { return known }
                let index = entry.configurationIndex
                let identity = entry.state.identity
                let resolved = identity.address.flatMap { try? SocketAddress(ipAddress: $0, port: identity.port) }
                return TargetRuntime(
                    entry.state, at: resolved.map { .address($0) } ?? endpoints[index], index: index,
                    of: configuration, tls: tls, http2TLS: http2TLS, logger: logger)
            })
    }
}

/// The targets of an upstream at a time. Immutable; a DNS change makes a new set, which shares the targets that stay.
final class TargetSet: Sendable {
    let table: TargetTable
    /// By index of ``table``.
    let targets: [TargetRuntime]

    init(_ table: TargetTable, _ targets: [TargetRuntime]) {
        self.table = table
        self.targets = targets
    }

    /// The target that represents a configured one; `nil` if it has no address at the moment.
    func target(configured index: Int) -> TargetRuntime? { targets.first { $0.index == index } }
}

extension UpstreamTargets: TargetSelecting {
    /// The configured targets in the order to try them; see ``TargetSelecting``.
    public func order(now: UInt64) -> [Int] { board.order(now: now) }

    /// A connection to a target was established; see ``TargetSelecting``.
    public func connected(_ target: Int, now: UInt64) {
        guard let target = targets.target(configured: target) else { return }
        board.connected(target.state, now: now)
    }

    /// A call begins.
    public func started(_ target: Int, now: UInt64) -> TargetState? { board.started(target, now: now) }

    /// A call ended.
    public func ended(
        _ target: Int, _ state: TargetState?, _ outcome: TargetOutcome, startedAt: UInt64, now: UInt64
    ) {
        // Only a failure needs jitter, and each random number is a system call.
        let random = outcome == .succeeded ? 0 : UInt64.random(in: UInt64.min...UInt64.max)
        board.ended(state, outcome, startedAt: startedAt, now: now, random: random)
    }

    /// Records for operators why a call could not connect.
    public func record(_ target: Int, _ failure: ConnectFailure, _ error: any Error, now: UInt64) {
        let kind: UpstreamFailure.Kind =
            switch failure {
            case .unreachable: .unreachable
            case .timedOut: .connectTimeout
            case .tls: .tls
            }
        targets.target(configured: target)?.record(kind, error, now: now, time: LoopClock().wallTime(at: now))
    }
}

extension HeadLimits {
    /// The configured limits of message heads.
    init(_ configuration: LimitsConfiguration) {
        self.init(head: configuration.head, fields: configuration.fields, target: configuration.target)
    }
}
