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
    /// Maximum number of requests of a client connection; 0 for none.
    let requestLimit: Int
    private(set) var pools: [UpstreamPool] = []
    /// Number of exchanges and off-loop operations that use it.
    private(set) var activeCount = 0
    private var onRetired: (() -> Void)?

    /// Creates a snapshot without pools; ``open(on:)`` creates them.
    init(_ config: ConfigSnapshot) {
        self.config = config
        telemetry = config.telemetry.makeLoopTelemetry(
            routes: config.configuration.routes.map { RouteLabels(name: $0.name, pattern: $0.pattern.description) }
                + [RouteLabels(name: ConfigSnapshot.accountsRouteName)],
            upstreams: config.targets,
            accessLogRatios: config.configuration.routes.map(\.accessLogRatio))
        timeouts = TimeoutNanoseconds(config.configuration.timeouts)
        requestLimit = config.configuration.limits.requestsPerConnection
        headLimits = HeadLimits(
            head: config.configuration.limits.head, fields: config.configuration.limits.fields,
            target: config.configuration.limits.target)
    }

    /// Creates the pools.
    func open(on context: LoopContext) {
        pools = config.upstreams.map {
            UpstreamPool($0, timeouts: timeouts, headLimits: headLimits, context: context)
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

    /// Retires the snapshot: no exchange begins with it any more. Its idle upstream connections are closed; leased ones
    /// are closed when they are returned.
    /// - Parameter onRetired: Called when the last exchange has ended, possibly at once.
    func retire(onRetired: @escaping () -> Void) {
        for pool in pools { pool.close() }
        guard activeCount > 0 else { return onRetired() }
        self.onRetired = onRetired
    }
}

/// The configured timeouts in nanoseconds, for arithmetic with times of the monotonic clock.
struct TimeoutNanoseconds {
    let header, bodyIdle, keepAlive, connect, responseHead, tunnelIdle: UInt64

    init(_ configuration: TimeoutsConfiguration) {
        header = configuration.header.wholeNanoseconds
        bodyIdle = configuration.bodyIdle.wholeNanoseconds
        keepAlive = configuration.keepAlive.wholeNanoseconds
        connect = configuration.connect.wholeNanoseconds
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
