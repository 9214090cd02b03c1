import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// State of one configuration on one event loop: its tables, connection pools and telemetry.
///
/// An exchange uses one snapshot from its beginning to its end. A new configuration creates a new snapshot, which
/// exchanges use that begin after it.
final class LoopSnapshot {
    let config: ConfigSnapshot
    let telemetry: LoopTelemetry
    let headLimits: HeadLimits
    let timeouts: TimeoutNanoseconds
    /// Bytes of a request body that are buffered before a connection to the upstream is leased.
    let requestBuffer: Int
    /// Nanoseconds of ``RateCredit`` that a byte gives back.
    private let nanosecondsPerByte: UInt64
    /// Maximum numbers of requests in flight; 0 for none.
    let inFlightPerAddress: Int
    let inFlightPerSession: Int
    /// Which leases of slow clients end while other requests wait.
    let pressure: PressureRule
    private(set) var pools: [UpstreamPool] = []
    /// Number of exchanges and off-loop operations that use it.
    private(set) var activeCount = 0
    private var onRetired: (() -> Void)?

    /// Creates a snapshot without pools; ``open(on:)`` creates them.
    init(_ config: ConfigSnapshot) {
        self.config = config
        telemetry = config.telemetry.makeLoopTelemetry(
            routes: config.configuration.routes.map { RouteLabels(name: $0.name, pattern: $0.pattern.description) }
                + AccountEndpoint.templates(under: config.configuration.accounts.prefix).map {
                    RouteLabels(name: ConfigSnapshot.accountsRouteName, pattern: $0)
                },
            upstreams: config.targets,
            accessLogRatios: config.configuration.routes.map(\.accessLogRatio),
            limits: config.configuration.rateLimits.map(\.name), listeners: config.loggedListeners)
        timeouts = TimeoutNanoseconds(config.configuration.timeouts)
        requestBuffer = config.configuration.limits.requestBuffer
        nanosecondsPerByte = RateCredit.Limit.nanosecondsPerByte(
            minimumRate: config.configuration.limits.minimumRate)
        inFlightPerAddress = config.configuration.limits.inFlightPerAddress
        inFlightPerSession = config.configuration.limits.inFlightPerSession
        pressure = PressureRule(rate: config.configuration.limits.pressureRate)
        headLimits = HeadLimits(config.configuration.limits)
    }

    /// The limit of clients that send or read slowly.
    /// - Parameter time: Maximum pause in nanoseconds; `nil` for `timeouts.bodyIdle`.
    func creditLimit(time: UInt64? = nil) -> RateCredit.Limit {
        RateCredit.Limit(time: time ?? timeouts.bodyIdle, perByte: nanosecondsPerByte)
    }

    /// Creates the pools. Those of the previous snapshot whose upstream is unchanged are kept with their connections.
    func open(on context: LoopContext, adopting previous: LoopSnapshot? = nil) {
        pools = config.upstreams.map { upstream in
            if let pool = previous?.pools.first(where: { $0.upstream.targets === upstream.targets }) {
                pool.adopt(upstream)
                return pool
            }
            return UpstreamPool(upstream, context: context)
        }
    }

    /// An exchange, or an off-loop operation, begins.
    func retain() {
        activeCount += 1
    }

    /// An exchange, or an off-loop operation, has ended.
    func release() {
        activeCount -= 1
        if activeCount == 0, let onRetired {
            self.onRetired = nil
            onRetired()
        }
    }

    /// Retires the snapshot: no exchange begins with it any more. The pools that its successor does not keep close their
    /// idle connections, and leased ones when they are returned.
    /// - Parameter onRetired: Called when the last exchange has ended, possibly at once.
    func retire(to successor: LoopSnapshot, onRetired: @escaping () -> Void) {
        for pool in pools where !successor.pools.contains(where: { $0 === pool }) { pool.close() }
        guard activeCount > 0 else { return onRetired() }
        self.onRetired = onRetired
    }
}

/// The configured timeouts in nanoseconds, for arithmetic with times of the monotonic clock.
struct TimeoutNanoseconds {
    let header, bodyIdle, keepAlive, responseHead, tunnelIdle: UInt64

    init(_ configuration: TimeoutsConfiguration) {
        header = configuration.header.wholeNanoseconds
        bodyIdle = configuration.bodyIdle.wholeNanoseconds
        keepAlive = configuration.keepAlive.wholeNanoseconds
        responseHead = configuration.responseHead.wholeNanoseconds
        tunnelIdle = configuration.tunnelIdle.wholeNanoseconds
    }

    var shortest: UInt64 { min(header, bodyIdle, keepAlive, responseHead, tunnelIdle) }
}

/// The snapshot that the exchanges of a client connection use. Retained from the beginning to the end of each.
struct SnapshotReference {
    private(set) var snapshot: LoopSnapshot
    private var isRetained = false

    init(_ snapshot: LoopSnapshot) { self.snapshot = snapshot }

    /// An exchange begins: it uses the snapshot in effect.
    mutating func retain(_ current: LoopSnapshot) {
        assert(!isRetained, "the last exchange has not ended")
        adopt(current)
        snapshot.retain()
        isRetained = true
    }

    /// The exchange ends.
    /// - Returns: The snapshot to release; `nil` if the exchange had ended before.
    mutating func end() -> LoopSnapshot? {
        guard isRetained else { return nil }
        isRetained = false
        return snapshot
    }

    /// Adopts the snapshot in effect: an idle connection must not keep an old one alive. Usually it is unchanged, which
    /// saves reference counting.
    mutating func adopt(_ current: LoopSnapshot) {
        if snapshot !== current { snapshot = current }
    }
}
