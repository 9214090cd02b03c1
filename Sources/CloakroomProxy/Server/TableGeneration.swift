import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// What one configuration comes to on one event loop: its tables, and what stands on them.
///
/// An exchange goes with one generation from its beginning to its end. Another configuration is another generation, for
/// the exchanges that begin from then on.
final class LoopSnapshot {
    let config: ConfigSnapshot
    let telemetry: LoopTelemetry
    let headLimits: HeadLimits
    let timeouts: TimeoutNanoseconds
    private(set) var pools: [UpstreamPool] = []
    /// How many exchanges, and pieces of work for them, have begun with it and not ended.
    private(set) var activeCount = 0
    private var onRetired: (() -> Void)?

    /// Without pools; ``open(on:)`` makes them.
    init(_ config: ConfigSnapshot) {
        self.config = config
        telemetry = config.telemetry.makeLoopTelemetry(
            routes: config.configuration.routes.map(\.name) + [ConfigSnapshot.accountsRouteName],
            upstreams: config.targets,
            accessLogRatios: config.configuration.routes.map(\.accessLogRatio))
        timeouts = TimeoutNanoseconds(config.configuration.timeouts)
        headLimits = HeadLimits(
            head: config.configuration.limits.head, fields: config.configuration.limits.fields,
            target: config.configuration.limits.target)
    }

    /// Makes the pools.
    func open(on context: LoopContext) {
        pools = config.upstreams.map {
            UpstreamPool($0, timeouts: timeouts, headLimits: headLimits, context: context)
        }
    }

    /// An exchange begins, or work for it off the event loop.
    func retain() {
        activeCount += 1
    }

    /// It has ended.
    func release() {
        activeCount -= 1
        if activeCount == 0, let onRetired {
            self.onRetired = nil
            onRetired()
        }
    }

    /// No exchange begins with it any more. Its connections to upstreams are closed: those that are in use when they
    /// come back.
    /// - Parameter onRetired: Is called once the last exchange has ended, perhaps at once.
    func retire(onRetired: @escaping () -> Void) {
        for pool in pools { pool.close() }
        guard activeCount > 0 else { return onRetired() }
        self.onRetired = onRetired
    }
}

/// The timeouts of a plan in nanoseconds, for adding to a moment.
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
