import CloakroomCore

/// Selects the target of a new connection: round robin, skipping unreachable targets with exponential back-off.
///
/// One per upstream, in ``UpstreamTargets``. All times are in nanoseconds.
struct TargetBalancer {
    private struct Target {
        var failures = 0
        /// Start of the last back-off.
        var since: UInt64 = 0
        /// End of the last back-off.
        var until: UInt64 = 0
    }

    private static let backoff = ExponentialBackoff(initial: .seconds(1), maximum: .seconds(30), jitter: 0.25)

    private var targets: [Target]
    private var next = 0

    /// - Parameter count: Number of targets.
    init(count: Int) {
        targets = Array(repeating: Target(), count: count)
    }

    /// Selects a target for a connection.
    /// - Parameters:
    ///   - tried: Targets that failed for this connection already.
    ///   - isFollowUp: Starts at the target selected last, without advancing the round robin.
    /// - Returns: The next target that is not in back-off, else the one whose back-off ends first; `nil` if all were
    ///   tried.
    mutating func selectTarget(now: UInt64, tried: [Int], isFollowUp: Bool = false) -> Int? {
        let start = isFollowUp ? next + targets.count - 1 : next
        for offset in targets.indices {
            let index = (start + offset) % targets.count
            guard targets[index].until <= now, !tried.contains(index) else { continue }
            if !isFollowUp { next = index + 1 }
            return index
        }
        return targets.indices.filter { !tried.contains($0) }.min { targets[$0].until < targets[$1].until }
    }

    /// A connection to a target was established.
    mutating func succeeded(_ index: Int) {
        targets[index] = Target()
    }

    /// A connection attempt failed.
    /// - Parameters:
    ///   - startedAt: Start of the attempt. Attempts that were in progress when a back-off began do not extend it.
    ///   - random: Shortens the back-off by up to 25 % (jitter), to avoid synchronized retries.
    /// - Returns: End of the target's back-off.
    @discardableResult
    mutating func failed(_ index: Int, startedAt: UInt64, now: UInt64, random: UInt64) -> UInt64 {
        guard targets[index].failures == 0 || startedAt >= targets[index].since else { return targets[index].until }
        targets[index].failures += 1
        targets[index].since = now
        let delay = Self.backoff.delay(afterFailures: targets[index].failures, random: random)
        targets[index].until = now &+ delay.wholeNanoseconds
        return targets[index].until
    }
}
