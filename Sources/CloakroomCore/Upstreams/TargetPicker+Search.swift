import Synchronization

extension TargetPicker {
    /// Selects a target if not all of them have the same rank and are usable: examines all of them.
    @inline(never)
    static func search(
        _ table: TargetTable, tried: TriedTargets, random: UInt64, turn: inout UInt32, now: UInt64
    ) -> Pick {
        // The bits may have led to a target that is not usable: using them again would prefer some of the others.
        let random = mixed(random)
        if let tier = table.tiers.first, tried.isEmpty, table.rules.targetLimit == 0,
            table.rules.policy != .roundRobin, table.isAllUsable
        {
            return .target(chooseOfAll(table, tier, random: random, MonotonicMilliseconds(now)))
        }
        for tier in table.tiers {
            var candidates = Candidates()
            var isCapped = false
            for index in tier.entries where tried.isEmpty || !tried.contains(table.slot(of: index)) {
                let word = table.word(of: index)
                let isUsable = word.isUsable
                guard isUsable || word.canProbe(now: now) else { continue }
                if isFull(index, table) {
                    isCapped = isCapped || isUsable
                } else if tried.isEmpty, word.rawValue & TargetWord.circuitMask != 0, claimProbe(of: index, table, now)
                {
                    // A request that has failed once probes no other target that may fail.
                    return .target(Choice(first: index, isProbe: true))
                } else if isUsable {
                    candidates.insert(index)
                }
            }
            if !candidates.isEmpty {
                return .target(choose(table, tier, candidates, random: random, turn: &turn, now: now))
            }
            if isCapped { return .reject(.cap) }
        }
        return searchUnusable(table, tried: tried, random: random, turn: &turn, now: now)
    }

    /// Selects a target by weight, if all are usable: as ``choose(_:_:_:random:turn:now:)``, but examines only the drawn ones.
    private static func chooseOfAll(
        _ table: TargetTable, _ tier: TargetTable.Tier, random: UInt64, _ now: MonotonicMilliseconds
    ) -> Choice {
        var bits = mixed(random)
        let total = table.classes[tier.classes.upperBound &- 1].cumulativeWeight
        let number = Int(truncatingIfNeeded: ((bits >> 32) &* UInt64(truncatingIfNeeded: total)) >> 32)
        var drawn = tier.classes.lowerBound
        while table.classes[drawn].cumulativeWeight <= number { drawn &+= 1 }
        let (choice, cost) = chooseOfClass(table.classes[drawn].entries, table, random, now)
        var best = (choice: choice, cost: UInt64.max)
        for index in tier.classes where index != drawn && table.classes[index].isLarge {
            bits = mixed(bits)
            let other = chooseOfClass(table.classes[index].entries, table, bits, now)
            if other.cost < best.cost, givesWay((choice, cost), of: drawn, to: other, of: index, table) {
                best = (Choice(first: other.choice.first, second: choice.first), other.cost)
            }
        }
        return best.choice
    }

    private static func chooseOfClass(
        _ range: Range<Int>, _ table: TargetTable, _ random: UInt64, _ now: MonotonicMilliseconds
    ) -> (choice: Choice, cost: UInt64) {
        let start = range.lowerBound
        guard range.count > 1 else { return (Choice(first: start), cost(start, in: table, now)) }
        let pair = draw(of: range.count, random)
        return compare(start &+ pair.first, start &+ pair.second, in: table, now)
    }

    /// No target is usable: selects among those that are only down by their checks, else the one whose back-off or ejection
    /// ends first.
    private static func searchUnusable(
        _ table: TargetTable, tried: TriedTargets, random: UInt64, turn: inout UInt32, now: UInt64
    ) -> Pick {
        let time = MonotonicMilliseconds(now)
        var soonest: (index: Int, wait: Int32)?
        var isCapped = false
        for tier in table.tiers {
            var candidates = Candidates()
            for index in tier.entries where !tried.contains(table.slot(of: index)) {
                let word = table.word(of: index)
                if word.isDraining { continue }
                if isFull(index, table) {
                    isCapped = true
                } else if word.circuit == .closed {
                    candidates.insert(index)
                } else {
                    let wait = time.elapsed(until: word.until)
                    if wait < soonest?.wait ?? .max { soonest = (index, wait) }
                }
            }
            guard !candidates.isEmpty else { continue }
            var choice = choose(table, tier, candidates, random: random, turn: &turn, now: now)
            choice.isPanic = true
            return .target(choice)
        }
        if let soonest { return .target(Choice(first: soonest.index, isPanic: true)) }
        if isCapped { return .reject(.cap) }
        // A later configuration drains targets that this one may still use: better them than none.
        let draining = (0..<table.selectable).first {
            table.word(of: $0).isDraining && !tried.contains(table.slot(of: $0)) && !isFull($0, table)
        }
        return draining.map { .target(Choice(first: $0, isPanic: true)) } ?? .reject(.noTarget)
    }

    private static func isFull(_ index: Int, _ table: TargetTable) -> Bool {
        let limit = table.rules.targetLimit
        return limit != 0 && table.withState(index) { $0.inFlight } >= limit
    }

    private static func claimProbe(of index: Int, _ table: TargetTable, _ now: UInt64) -> Bool {
        table.withState(index) { $0.claimProbe(time: table.rules.probeTime, now: now) }
    }

    /// Selects one of the candidates of a tier: draws a class by weight, then two targets of it.
    private static func choose(
        _ table: TargetTable, _ tier: TargetTable.Tier, _ candidates: Candidates, random: UInt64, turn: inout UInt32,
        now: UInt64
    ) -> Choice {
        let time = MonotonicMilliseconds(now)
        var total = 0
        for index in tier.classes {
            total += table.classes[index].weight * candidates.count(in: table.classes[index].entries)
        }
        // The two halves of `random` draw the targets.
        var bits = mixed(random)
        var rest = Int(truncatingIfNeeded: ((bits >> 32) * UInt64(total)) >> 32)
        var drawn = tier.classes.lowerBound
        for index in tier.classes {
            let weight = table.classes[index].weight * candidates.count(in: table.classes[index].entries)
            drawn = index
            if rest < weight { break }
            rest -= weight
        }
        let range = table.classes[drawn].entries
        if table.rules.policy == .roundRobin {
            return takeTurn(candidates, in: range, turn: &turn)
        }
        let (choice, cost) = chooseOfCandidates(candidates, in: range, table, random, time)
        guard tier.classes.count > 1 else { return choice }
        var best = (choice: choice, cost: UInt64.max)
        for index in tier.classes where index != drawn && table.classes[index].isLarge {
            guard candidates.count(in: table.classes[index].entries) > 0 else { continue }
            bits = mixed(bits)
            let other = chooseOfCandidates(candidates, in: table.classes[index].entries, table, bits, time)
            if other.cost < best.cost, givesWay((choice, cost), of: drawn, to: other, of: index, table) {
                best = (Choice(first: other.choice.first, second: choice.first), other.cost)
            }
        }
        return best.choice
    }

    /// Whether a drawn target costs more than 8 times as much as a target of another class.
    ///
    /// The requests in flight of the heavier one are counted in proportion to the weight of the lighter one: targets with
    /// equal latencies have them in that proportion, and would give way too often otherwise.
    private static func givesWay(
        _ drawn: (choice: Choice, cost: UInt64), of drawnClass: Int, to other: (choice: Choice, cost: UInt64),
        of otherClass: Int, _ table: TargetTable
    ) -> Bool {
        let (weight, otherWeight) = (table.classes[drawnClass].weight, table.classes[otherClass].weight)
        let cost = weighed(drawn.cost, of: drawn.choice.first, weight, as: otherWeight, table)
        return weighed(other.cost, of: other.choice.first, otherWeight, as: weight, table) < cost / 8
    }

    /// The cost of a target if it had the requests in flight for another weight that is lower.
    private static func weighed(
        _ cost: UInt64, of index: Int, _ weight: Int, as lower: Int, _ table: TargetTable
    ) -> UInt64 {
        guard lower < weight else { return cost }
        let inFlight = UInt64(truncatingIfNeeded: min(table.withState(index) { $0.inFlight }, 1 << 20))
        let (all, part) = (UInt64(truncatingIfNeeded: weight), UInt64(truncatingIfNeeded: lower))
        // Without overflow: less than 2³³ · 2³¹.
        return min(cost / (inFlight &+ 1), 1 << 33) &* (inFlight &* part &+ all) / all
    }

    private static func chooseOfCandidates(
        _ candidates: Candidates, in range: Range<Int>, _ table: TargetTable, _ random: UInt64,
        _ now: MonotonicMilliseconds
    ) -> (choice: Choice, cost: UInt64) {
        let count = candidates.count(in: range)
        guard count > 1 else {
            let index = candidates.index(0, in: range)
            return (Choice(first: index), cost(index, in: table, now))
        }
        let pair = draw(of: count, random)
        return compare(
            candidates.index(pair.first, in: range), candidates.index(pair.second, in: range), in: table, now)
    }

    private static func takeTurn(_ candidates: Candidates, in range: Range<Int>, turn: inout UInt32) -> Choice {
        let count = candidates.count(in: range)
        let number = Int(turn % UInt32(truncatingIfNeeded: max(count, 1)))
        turn &+= 1
        return Choice(
            first: candidates.index(number, in: range),
            second: count > 1 ? candidates.index(number + 1 == count ? 0 : number + 1, in: range) : -1)
    }

    /// Further random bits (SplitMix64).
    private static func mixed(_ random: UInt64) -> UInt64 {
        var bits = random &+ 0x9e37_79b9_7f4a_7c15
        bits = (bits ^ bits >> 30) &* 0xbf58_476d_1ce4_e5b9
        bits = (bits ^ bits >> 27) &* 0x94d0_49bb_1331_11eb
        return bits ^ bits >> 31
    }
}

/// A set of indices of a ``TargetTable``, as a bitmap.
struct Candidates {
    private var words = InlineArray<4, UInt64>(repeating: 0)

    /// Whether there is none.
    var isEmpty: Bool { words[0] | words[1] | words[2] | words[3] == 0 }

    mutating func insert(_ index: Int) {
        words[index >> 6 & 3] |= 1 << UInt64(index & 63)
    }

    func count(in range: Range<Int>) -> Int {
        if range.upperBound <= 64 { return bits(of: 0, in: range).nonzeroBitCount }
        var count = 0
        for word in range.lowerBound >> 6...(range.upperBound &- 1) >> 6 {
            count &+= bits(of: word, in: range).nonzeroBitCount
        }
        return count
    }

    /// The candidate in a range with a number, from 0. The first index of the range if there are fewer.
    func index(_ number: Int, in range: Range<Int>) -> Int {
        var number = number
        for word in range.lowerBound >> 6...max(range.upperBound &- 1, 0) >> 6 {
            var bits = bits(of: word, in: range)
            while bits != 0 {
                if number == 0 { return word << 6 | bits.trailingZeroBitCount }
                number &-= 1
                bits &= bits &- 1
            }
        }
        return range.lowerBound
    }

    @inline(__always)
    private func bits(of word: Int, in range: Range<Int>) -> UInt64 {
        let first = max(range.lowerBound &- word << 6, 0)
        let length = min(range.upperBound &- word << 6, 64) &- first
        guard length > 0 else { return 0 }
        return words[word & 3] & (UInt64.max &>> UInt64(64 &- length)) &<< UInt64(first)
    }
}
