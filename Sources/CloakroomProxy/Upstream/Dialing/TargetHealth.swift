/// Which of an upstream's targets a new connection goes to: they take turns, and one that could not be reached is left
/// alone for a while.
///
/// One per upstream, in ``UpstreamTargets``. Moments and times are in nanoseconds.
struct TargetBalancer {
    private struct Target {
        var failures = 0
        /// When the last back-off began.
        var since: UInt64 = 0
        /// When it ends.
        var until: UInt64 = 0
    }

    /// The first back-off. Every further failure doubles it.
    static let initialBackoff: UInt64 = 1_000_000_000
    /// The longest back-off.
    static let maxBackoff: UInt64 = 30_000_000_000

    private var targets: [Target]
    private var next = 0

    /// - Parameter count: How many targets there are.
    init(count: Int) {
        targets = Array(repeating: Target(), count: count)
    }

    /// Chooses a target for a connection.
    /// - Parameters:
    ///   - tried: Those that were tried for this connection already, in vain.
    ///   - isFollowUp: Begins with the target whose turn was last, and takes no turn.
    /// - Returns: The next in turn that is in no back-off, else the one whose back-off ends soonest; `nil` once all were
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

    /// A connection to a target stands.
    mutating func succeeded(_ index: Int) {
        targets[index] = Target()
    }

    /// A target could not be reached.
    /// - Parameters:
    ///   - begunAt: When the attempt began. Attempts that were under way when a back-off began do not make it longer.
    ///   - random: Shortens the back-off by up to a quarter, so that those who failed together do not come back together.
    /// - Returns: When its back-off ends.
    @discardableResult
    mutating func failed(_ index: Int, startedAt: UInt64, now: UInt64, random: UInt64) -> UInt64 {
        guard targets[index].failures == 0 || startedAt >= targets[index].since else { return targets[index].until }
        // Five doublings are beyond the longest.
        let doublings = min(targets[index].failures, 5)
        let backOff = min(Self.initialBackoff << UInt64(doublings), Self.maxBackoff)
        targets[index].failures += 1
        targets[index].since = now
        targets[index].until = now &+ backOff &- random % (backOff / 4)
        return targets[index].until
    }
}
