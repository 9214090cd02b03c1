import CloakroomCore
import CloakroomTelemetry

/// What the pool reports of its requests and connections.
extension UpstreamPool {
    /// A response head was received.
    /// - Parameters:
    ///   - sentAt: When the request was sent.
    ///   - duration: For how long the target was waited for, in nanoseconds; `nil` if that does not measure it.
    func headReceived(_ lease: any UpstreamLease, status: Int, sentAt: UInt64, after duration: UInt64?) {
        let now = context.now
        let state = lease.target.state
        lease.isProbe = false
        if status >= 429 {
            if upstream.configuration.eject.statuses.contains(status) {
                return requestFailed(lease, sentAt: sentAt, after: duration)
            }
            if status == 429 { state.throttled(now: now) }
        }
        outcomes.count(slot: lease.slot, isFailure: false)
        guard state.headReceived(after: duration ?? 0, now: now, isTimed: duration != nil) else { return }
        upstream.targets.board.requestSucceeded(state, startedAt: sentAt, now: now)
    }

    /// A target returned no response, an invalid one, or one that counts as a failure.
    /// - Parameters:
    ///   - sentAt: When the request was sent.
    ///   - duration: For how long the target was waited for, in nanoseconds; `nil` if that does not measure it. Then the
    ///     failure counts as the minimum, ``BalanceConfiguration/failurePenalty``.
    func requestFailed(_ lease: any UpstreamLease, sentAt: UInt64, after duration: UInt64?) {
        let now = context.now
        lease.isProbe = false
        outcomes.count(slot: lease.slot, isFailure: true)
        upstream.targets.board.requestFailed(
            lease.target.state, after: duration ?? 0, startedAt: sentAt, now: now, random: context.random())
    }

    func flushOutcomes() {
        outcomes.flush(to: targets, upstream.targets.board)
    }
}

/// What an event loop has reported about its connections to an upstream.
struct PoolGauges {
    private var idle = 0
    private var active = 0
    private var pending = 0
    private var streams = 0

    mutating func update(_ upstream: UpstreamRuntime, idle: Int, active: Int, pending: Int) {
        Self.update(upstream.metrics.idleConnections, &self.idle, idle)
        Self.update(upstream.metrics.activeConnections, &self.active, active)
        Self.update(upstream.metrics.pendingRequests, &self.pending, pending)
    }

    mutating func update(_ metrics: UpstreamHTTP2Metrics, streams: Int) {
        if streams != self.streams { metrics.addStreams(streams - self.streams) }
        self.streams = streams
    }

    private static func update(_ gauge: GaugeHandle, _ old: inout Int, _ new: Int) {
        if old != new { gauge.add(Int64(new - old)) }
        old = new
    }
}

/// The outcomes of requests since the last tick, by target.
struct TargetOutcomes {
    private struct Counts {
        var succeeded = 0
        var failed = 0
    }

    private var counts: [Counts] = []
    private var hasCounts = false
    /// Requests that were sent for the first time.
    var firstAttempts = 0

    /// - Parameter slot: The number of the target; see ``TargetState/slot``.
    mutating func count(slot: Int, isFailure: Bool) {
        while counts.count <= slot { counts.append(Counts()) }
        if isFailure { counts[slot].failed += 1 } else { counts[slot].succeeded += 1 }
        hasCounts = true
    }

    mutating func flush(to targets: TargetSet, _ board: UpstreamBoard) {
        if firstAttempts > 0 { board.budget.add(firstAttempts: firstAttempts) }
        firstAttempts = 0
        guard hasCounts else { return }
        hasCounts = false
        for target in targets.targets where target.state.slot < counts.count {
            let count = counts[target.state.slot]
            if count.succeeded + count.failed > 0 {
                target.state.count(succeeded: count.succeeded, failed: count.failed)
            }
        }
        for index in counts.indices { counts[index] = Counts() }
    }
}
