import CloakroomTelemetry

/// What one event loop reports about itself at its timer: how late the timer is, and once a second the states of its
/// connections. Nothing is counted per request.
struct LoopConnectionMetrics {
    /// The time between two counts, in nanoseconds.
    private static let countInterval: UInt64 = 1_000_000_000

    /// The delay of the timer, in nanoseconds.
    var interval: UInt64 = 0
    private var lastEnd: UInt64 = 0
    private var lastCount: UInt64 = 0
    private var reported: [ClientConnectionState: Int] = [:]

    /// The timer runs: records how much later than it was due.
    func tickStarted(_ metrics: ListenerMetrics, now: UInt64) {
        guard lastEnd > 0 else { return }
        let due = lastEnd &+ interval
        metrics.lag.record(nanoseconds: now > due ? now - due : 0)
    }

    /// The timer is set again from this time on.
    mutating func tickEnded(at now: UInt64) { lastEnd = now }

    /// Whether the connections should be counted.
    mutating func isCountDue(at now: UInt64) -> Bool {
        guard now >= lastCount &+ Self.countInterval else { return false }
        lastCount = now
        return true
    }

    /// Counts the connections by state, and reports the differences from the last count.
    mutating func count(_ members: [any LoopRegistered], _ metrics: ListenerMetrics) {
        var counts: [ClientConnectionState: Int] = [:]
        for member in members where member.isDownstream { counts[member.connectionState, default: 0] += 1 }
        for state in ClientConnectionState.allCases {
            let difference = counts[state, default: 0] - reported[state, default: 0]
            if difference != 0 { metrics.add(difference, state) }
        }
        reported = counts
    }
}
