import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// What one configuration comes to on one event loop: its tables, and what stands on them.
///
/// An exchange goes with one generation from its beginning to its end. Another configuration is another generation, for
/// the exchanges that begin from then on.
final class TableGeneration {
    let tables: GatewayTables
    let telemetry: LoopTelemetry
    let headLimits: HeadLimits
    let timeouts: TimeoutNanoseconds
    private(set) var pools: [UpstreamPool] = []
    /// How many exchanges, and pieces of work for them, have begun with it and not ended.
    private(set) var unfinished = 0
    private var onRetired: (() -> Void)?

    /// Without pools; ``open(on:)`` makes them.
    init(_ tables: GatewayTables) {
        self.tables = tables
        telemetry = tables.telemetry.makeLoopTelemetry(
            routes: tables.plan.routes.map(\.name) + [GatewayTables.accountsRouteName], upstreams: tables.targets,
            accessLogRatios: tables.plan.routes.map(\.accessLogRatio))
        timeouts = TimeoutNanoseconds(tables.plan.timeouts)
        headLimits = HeadLimits(
            head: tables.plan.limits.head, fields: tables.plan.limits.fields, target: tables.plan.limits.target)
    }

    /// Makes the pools.
    func open(on context: LoopContext) {
        pools = tables.upstreams.map {
            UpstreamPool($0, timeouts: timeouts, headLimits: headLimits, context: context)
        }
    }

    /// An exchange begins, or work for it off the event loop.
    func enter() {
        unfinished += 1
    }

    /// It has ended.
    func leave() {
        unfinished -= 1
        if unfinished == 0, let onRetired {
            self.onRetired = nil
            onRetired()
        }
    }

    /// No exchange begins with it any more. Its connections to upstreams are closed: those that are in use when they
    /// come back.
    /// - Parameter onRetired: Is called once the last exchange has ended, perhaps at once.
    func retire(onRetired: @escaping () -> Void) {
        for pool in pools { pool.close() }
        guard unfinished > 0 else { return onRetired() }
        self.onRetired = onRetired
    }
}

/// The timeouts of a plan in nanoseconds, for adding to a moment.
struct TimeoutNanoseconds {
    let header, bodyIdle, keepAlive, connect, responseHead, tunnelIdle: UInt64

    init(_ plan: TimeoutsPlan) {
        header = plan.header.wholeNanoseconds
        bodyIdle = plan.bodyIdle.wholeNanoseconds
        keepAlive = plan.keepAlive.wholeNanoseconds
        connect = plan.connect.wholeNanoseconds
        responseHead = plan.responseHead.wholeNanoseconds
        tunnelIdle = plan.tunnelIdle.wholeNanoseconds
    }

    var shortest: UInt64 { min(header, bodyIdle, keepAlive, responseHead, tunnelIdle) }
}
