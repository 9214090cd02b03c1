/// Orders the targets for identity calls, which are few and whose HTTP client selects their connections itself. Their
/// outcomes count for requests and the other way round; see ``TargetSelecting``.
extension UpstreamBoard {
    /// The rank of a configured target for a call: the best of its entries.
    private struct Rank: Comparable {
        /// 0 usable or probed by this call, 1 otherwise, 2 draining.
        var group: Int
        var tier: Int
        /// The cost, or the time until a probe.
        var cost: UInt64
        /// The position in a ring that each call begins at the next target.
        var turn: Int

        static func < (one: Rank, other: Rank) -> Bool {
            (one.group, one.tier, one.cost, one.turn) < (other.group, other.tier, other.cost, other.turn)
        }
    }

    /// All configured targets that are not draining, the preferred one first: usable ones by tier and cost, then the
    /// others by the end of their back-off or ejection. If all are draining: all of them.
    ///
    /// A target whose back-off has ended is first for one call, which probes it: a failed connection attempt moves on to the
    /// next target. An ejected one is not, because its failure would be that of the call, except if no request probed it
    /// within a minute.
    public func order(now: UInt64) -> [Int] {
        let table = table
        // The usual case needs no ranks.
        if table.entries.count == 1, let only = table.entries.first, only.state.word.isUsable {
            return [only.configurationIndex]
        }
        let start = nextTurn()
        let count = max((table.entries.map(\.configurationIndex).max() ?? 0) + 1, 1)
        var ranks: [Int: Rank] = [:]
        var mayProbe = true
        for index in table.entries.indices {
            let target = table.entries[index].configurationIndex
            let turn = (target % count + count - start % count) % count
            let rank = rank(of: index, in: table, turn: turn, mayProbe: &mayProbe, now: now)
            ranks[target] = min(ranks[target] ?? rank, rank)
        }
        guard ranks.count > 1 else { return Array(ranks.keys) }
        let sorted = ranks.sorted { $0.value < $1.value }
        let active = sorted.filter { $0.value.group < 2 }
        return (active.isEmpty ? sorted : active).map(\.key)
    }

    private func rank(
        of index: Int, in table: TargetTable, turn: Int, mayProbe: inout Bool, now: UInt64
    ) -> Rank {
        let entry = table.entries[index]
        let word = entry.state.word
        let time = MonotonicMilliseconds(now)
        if word.isDraining { return Rank(group: 2, tier: entry.tier, cost: 0, turn: turn) }
        if word.isUsable {
            let cost = TargetPicker.cost(index, in: table, time)
            return Rank(group: 0, tier: entry.tier, cost: cost, turn: turn)
        }
        let wait = time.elapsed(until: word.until)
        // One probe for each call: a second one would be lost.
        if mayProbe, word.circuit == .backOff || wait <= Self.unprobed,
            entryOfCall(entry.configurationIndex, in: table) != nil,
            entry.state.claimProbe(time: table.rules.probeTime, now: now)
        {
            mayProbe = false
            return Rank(group: 0, tier: entry.tier, cost: 0, turn: -1)
        }
        let cost = word.circuit == .closed ? 0 : UInt64(max(Int64(wait), 0))
        return Rank(group: 1, tier: 0, cost: cost, turn: turn)
    }

    /// Milliseconds since the end of an ejection after which calls probe a target, negative.
    private static let unprobed: Int32 = -60_000

    /// A call to a configured target begins.
    /// - Returns: The state to end the call with; `nil` for a target with several addresses, which is not counted because
    ///   the address that the call uses is unknown.
    public func started(_ target: Int, now: UInt64) -> TargetState? {
        let state = entryOfCall(target, in: table)?.state
        state?.started(now: now)
        return state
    }

    /// A call ended.
    /// - Parameters:
    ///   - target: What ``started(_:now:)`` returned, so that start and end are counted at the same state.
    ///   - startedAt: When it began.
    ///   - random: Random bits, for the jitter of a back-off.
    public func ended(
        _ target: TargetState?, _ outcome: TargetOutcome, startedAt: UInt64, now: UInt64, random: UInt64
    ) {
        guard let target else { return }
        let duration = now > startedAt ? now - startedAt : 0
        switch outcome {
        case .succeeded:
            if target.headReceived(after: duration, now: now) {
                requestSucceeded(target, startedAt: startedAt, now: now)
            }
            connected(target, now: now)
        case .connectFailed: connectFailed(target, startedAt: startedAt, now: now, random: random)
        case .failed: requestFailed(target, after: duration, startedAt: startedAt, now: now, random: random)
        case .cancelled: target.cancelled(after: duration, now: now)
        }
        target.ended(owesHead: true)
    }

    private func entryOfCall(_ target: Int, in table: TargetTable) -> TargetEntry? {
        var found: TargetEntry?
        for entry in table.entries where entry.configurationIndex == target {
            if found != nil { return nil }
            found = entry
        }
        return found
    }
}
