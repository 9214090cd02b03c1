import Synchronization

/// Selects the target of a request: of two random usable targets the one with the lower cost.
public enum TargetPicker {
    /// The selected targets, as indices of a ``TargetTable``.
    public struct Choice: Sendable, Equatable {
        /// The target.
        public var first: Int
        /// The target that was compared with it, for the case that the first one has no connection; -1 if there is none.
        public var second: Int
        /// Whether the costs are within a factor of 2, so that the one with an idle connection is preferred.
        public var isClose: Bool
        /// Whether the request probes a target whose circuit is not closed.
        public var isProbe: Bool
        /// Whether no target is usable, and the request is sent nevertheless.
        public var isPanic: Bool

        package init(first: Int, second: Int = -1, isClose: Bool = false, isProbe: Bool = false, isPanic: Bool = false)
        {
            self.first = first
            self.second = second
            self.isClose = isClose
            self.isProbe = isProbe
            self.isPanic = isPanic
        }
    }

    /// Why no target was selected.
    public enum Rejection: Sendable, Equatable {
        /// All targets are draining or were tried.
        case noTarget
        /// All usable targets have the maximum number of requests in flight.
        case cap
    }

    /// The result of a selection.
    public enum Pick: Sendable, Equatable {
        /// Send the request.
        case target(Choice)
        /// Wait in the queue, or reject the request.
        case reject(Rejection)
    }

    /// Selects a target. Does not count the request: see ``TargetState/started(now:isTimed:)``.
    ///
    /// A target whose back-off or ejection has ended may be selected as a probe, which is claimed by this call.
    /// - Parameters:
    ///   - tried: Targets that are not selected again.
    ///   - random: Random bits, all of which are used.
    ///   - turn: The counter of the event loop for `roundRobin`.
    public static func pick(
        _ table: TargetTable, tried: TriedTargets = .none, random: UInt64, turn: inout UInt32, now: UInt64
    ) -> Pick {
        let targets = table.selectable
        guard table.isUniform, tried.isEmpty else {
            return search(table, tried: tried, random: random, turn: &turn, now: now)
        }
        if targets == 1 { return .target(Choice(first: 0)) }
        let pair: (first: Int, second: Int)
        if table.rules.policy == .roundRobin {
            pair.first = Int(turn % UInt32(truncatingIfNeeded: targets))
            pair.second = pair.first + 1 == targets ? 0 : pair.first + 1
        } else {
            pair = draw(of: targets, random)
        }
        let first = table.word(of: pair.first)
        let second = table.word(of: pair.second)
        guard first.isUsable, second.isUsable else {
            return search(table, tried: tried, random: random, turn: &turn, now: now)
        }
        if table.rules.policy == .roundRobin {
            turn &+= 1
            return .target(Choice(first: pair.first, second: pair.second))
        }
        return .target(compare(pair.first, pair.second, in: table, MonotonicMilliseconds(now)).choice)
    }

    /// Two different numbers below a number of at least 2, each pair with the same probability.
    static func draw(of count: Int, _ random: UInt64) -> (first: Int, second: Int) {
        let count = UInt64(truncatingIfNeeded: count)
        let first = ((random >> 32) &* count) >> 32
        let other = ((random & 0xffff_ffff) &* (count &- 1)) >> 32
        return (Int(truncatingIfNeeded: first), Int(truncatingIfNeeded: other >= first ? other &+ 1 : other))
    }

    /// The one of two targets with the lower cost, and that cost.
    static func compare(
        _ one: Int, _ other: Int, in table: TargetTable, _ now: MonotonicMilliseconds
    ) -> (choice: Choice, cost: UInt64) {
        let cost = cost(one, in: table, now)
        let otherCost = self.cost(other, in: table, now)
        if otherCost < cost {
            return (Choice(first: other, second: one, isClose: cost <= otherCost &* 2), otherCost)
        }
        return (Choice(first: one, second: other, isClose: otherCost <= cost &* 2), cost)
    }

    /// The cost of sending a request to a target: its latency, multiplied by the requests in flight with this one, doubled
    /// in another zone, up to ten times as much during a slow start. Less than 2⁶⁰.
    static func cost(_ index: Int, in table: TargetTable, _ now: MonotonicMilliseconds) -> UInt64 {
        let zoneShift = table.zoneShifts[index]
        return table.withState(index) { state in
            let load = state.load.load(ordering: .relaxed)
            let latency = table.rules.policy == .latency ? state.latency(load: load, at: now) : 1
            let cost = latency &* (min(load >> 32, 1 << 20) &+ 1) &<< zoneShift
            guard table.rules.slowStart != 0 else { return cost }
            return state.warmingCost(cost, slowStart: table.rules.slowStart, at: now)
        }
    }
}

/// The targets that a request was sent to, at most four, by ``TargetState/slot``, so that a change of the table between
/// two attempts has no effect.
public struct TriedTargets: Sendable, Equatable {
    /// 16 bits for each target; all bits set for none.
    private var slots: UInt64 = .max

    /// None.
    public static let none = TriedTargets()

    /// None yet.
    public init() {}

    /// Whether there is none.
    public var isEmpty: Bool { slots == .max }

    /// Adds a target; the oldest of four others is dropped.
    public mutating func insert(_ slot: Int) {
        if !contains(slot) { slots = slots << 16 | UInt64(slot) & 0xffff }
    }

    /// Whether a target was tried.
    public func contains(_ slot: Int) -> Bool {
        let slot = UInt64(slot) & 0xffff
        return slots & 0xffff == slot || slots >> 16 & 0xffff == slot || slots >> 32 & 0xffff == slot
            || slots >> 48 == slot
    }
}
