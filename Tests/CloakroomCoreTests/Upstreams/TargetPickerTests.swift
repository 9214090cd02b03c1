import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000
private let now: UInt64 = 1_000 * second

@Suite("Target picker")
struct TargetPickerTests {
    private func table(
        weights: [Int], tiers: [Int]? = nil, otherZone: Set<Int> = [],
        _ balance: BalanceConfiguration = BalanceConfiguration(), limit: Int = 0
    ) -> TargetTable {
        let slots = TargetSlots()
        let entries = weights.indices.map { index in
            TargetEntry(
                state: TargetState(testIdentity(index), slots: slots), weight: weights[index],
                tier: tiers?[index] ?? 0, isOtherZone: otherZone.contains(index), configurationIndex: index)
        }
        return TargetTable(entries, slots: slots, rules: PickRules(balance, targetLimit: limit))
    }

    private func choice(
        _ table: TargetTable, tried: TriedTargets = .none, random: UInt64 = 0, at time: UInt64 = now
    ) -> TargetPicker.Choice? {
        var turn: UInt32 = 0
        guard case .target(let choice) = TargetPicker.pick(table, tried: tried, random: random, turn: &turn, now: time)
        else { return nil }
        return choice
    }

    private func rejection(_ table: TargetTable, tried: TriedTargets = .none) -> TargetPicker.Rejection? {
        var turn: UInt32 = 0
        guard case .reject(let reason) = TargetPicker.pick(table, tried: tried, random: 0, turn: &turn, now: now) else {
            return nil
        }
        return reason
    }

    /// The shares of the first choices, by configuration index. No request is in flight at the end of each pick.
    private func shares(_ table: TargetTable, picks: Int = 20_000) -> [Double] {
        var random = SeededGenerator(seed: 7)
        var turn: UInt32 = 0
        var counts = Array(repeating: 0, count: table.count)
        for _ in 0..<picks {
            guard case .target(let choice) = TargetPicker.pick(table, random: random.next(), turn: &turn, now: now)
            else { continue }
            counts[table[choice.first].configurationIndex] += 1
        }
        return counts.map { Double($0) / Double(picks) }
    }

    private func measure(_ table: TargetTable, _ index: Int, milliseconds: UInt64) {
        table[index].state.headReceived(after: milliseconds * 1_000_000, now: now)
    }

    private func eject(_ table: TargetTable, _ index: Int, at time: UInt64 = now) {
        table[index].state.apply(.ejected(times: .standard, random: 0), now: time)
    }

    @Test("The only target is selected whatever its state is, but not again")
    func one() {
        let table = table(weights: [100])
        expect(choice(table), equals: TargetPicker.Choice(first: 0))
        eject(table, 0)
        expect(choice(table)?.first, equals: 0)
        var tried = TriedTargets()
        tried.insert(table[0].state.slot)
        expect(rejection(table, tried: tried), equals: .noTarget)
        expect(rejection(self.table(weights: [])), equals: .noTarget)
        expect(rejection(self.table(weights: [0])), equals: .noTarget)
    }

    @Test("The cheaper of two targets is first, and a close one is marked")
    func cheaper() {
        let table = table(weights: [100, 100])
        measure(table, 0, milliseconds: 10)
        measure(table, 1, milliseconds: 21)
        for random in [0, UInt64.max] {
            expect(choice(table, random: random), equals: TargetPicker.Choice(first: 0, second: 1))
        }
        measure(table, 0, milliseconds: 11)
        expect(choice(table), equals: TargetPicker.Choice(first: 0, second: 1, isClose: true))
        table[0].state.started(now: now)
        // 2 × 11 ms are more than 21 ms.
        expect(choice(table), equals: TargetPicker.Choice(first: 1, second: 0, isClose: true))
    }

    @Test("The policy `requests` compares only requests in flight")
    func requests() {
        let table = table(weights: [100, 100], BalanceConfiguration(policy: .requests))
        measure(table, 0, milliseconds: 1_000)
        measure(table, 1, milliseconds: 1)
        table[1].state.started(now: now)
        expect(choice(table)?.first, equals: 0)
        table[0].state.started(now: now)
        table[0].state.started(now: now)
        expect(choice(table)?.first, equals: 1)
    }

    @Test("Round robin takes the usable targets in turn")
    func roundRobin() {
        let table = table(weights: [100, 100, 100], BalanceConfiguration(policy: .roundRobin))
        var turn: UInt32 = 0
        func take(_ count: Int) -> [Int] {
            (0..<count).compactMap { _ in
                guard case .target(let choice) = TargetPicker.pick(table, random: 9, turn: &turn, now: now) else {
                    return nil
                }
                return choice.first
            }
        }
        expect(take(5), equals: [0, 1, 2, 0, 1])
        table[1].state.apply(.checkFailed, now: now)
        expect(Set(take(2)), equals: [0, 2])
        let counts = Dictionary(take(30).map { ($0, 1) }, uniquingKeysWith: +)
        expect(counts[1] == nil && abs((counts[0] ?? 0) - 15) <= 5)
        turn = .max
        expect(take(3).count, equals: 3)
    }

    @Test("A target in another zone costs twice as much")
    func zones() {
        let table = table(weights: [100, 100], otherZone: [0])
        measure(table, 0, milliseconds: 10)
        measure(table, 1, milliseconds: 19)
        expect(choice(table)?.first, equals: 1)
        measure(table, 1, milliseconds: 21)
        expect(choice(table)?.first, equals: 0)
    }

    @Test("A target in slow start costs up to ten times as much")
    func slowStart() {
        let table = table(weights: [100, 100], BalanceConfiguration(slowStart: .seconds(10)))
        measure(table, 0, milliseconds: 10)
        measure(table, 1, milliseconds: 90)
        table[0].state.startWarming(at: MonotonicMilliseconds(now))
        expect(choice(table)?.first, equals: 1)
        expect(choice(table, at: now + 5 * second)?.first, equals: 0)
    }

    @Test("No cost overflows")
    func overflow() {
        let table = table(weights: [100, 100], otherZone: [0, 1], BalanceConfiguration(slowStart: .seconds(900)))
        for index in 0..<2 {
            let state = table[index].state
            state.startWarming(at: MonotonicMilliseconds(now))
            for _ in 0..<2 { state.started(now: 0) }
            state.load.store(.max, ordering: .relaxed)
            _ = state.failed(after: .max, now: now)
        }
        let cost = TargetPicker.cost(0, in: table, MonotonicMilliseconds(now))
        expect(cost > 1 << 52 && cost < 1 << 60)
        expect(choice(table) != nil)
    }

    @Test("Targets that are not usable are not selected", arguments: [2, 3, 10, 256])
    func unusable(count: Int) {
        let table = table(weights: Array(repeating: 100, count: count))
        for index in 0..<(count - 1) / 2 {
            table[index].state.apply(index % 2 == 0 ? .checkFailed : .ejected(times: .standard, random: 0), now: now)
        }
        let shares = shares(table, picks: 5_000)
        for index in 0..<count { expect((shares[index] > 0) == (index >= (count - 1) / 2) || count == 256) }
        expect(shares[..<((count - 1) / 2)].allSatisfy { $0 == 0 })
    }

    @Test("All usable targets are selected alike, also if some are not usable")
    func uniform() {
        let table = table(weights: Array(repeating: 100, count: 10))
        for index in 0..<10 { measure(table, index, milliseconds: 10) }
        for share in shares(table) { #expect(abs(share - 0.1) < 0.01) }
        for index in [0, 4, 9] { table[index].state.apply(.checkFailed, now: now) }
        for (index, share) in shares(table).enumerated() {
            expect([0, 4, 9].contains(index) ? share == 0 : abs(share - 1.0 / 7) < 0.015)
        }
    }

    @Test("At the end of an ejection one pick claims the probe, and the next ones do not")
    func probes() {
        let table = table(weights: [100, 100, 100])
        eject(table, 1)
        let later = now + 10 * second
        for random in 0..<20 as Range<UInt64> {
            expect(
                choice(table, random: random &* 0x9e37_79b9_7f4a_7c15, at: later - 1_000_000)?.isProbe, equals: false)
        }
        let picks = (0..<50 as Range<UInt64>).compactMap {
            choice(table, random: $0 &* 0x9e37_79b9_7f4a_7c15, at: later)
        }
        expect(picks.filter(\.isProbe), equals: [TargetPicker.Choice(first: 1, isProbe: true)])
        expect(picks.filter { $0.first == 1 }.count, equals: 1)
        // The probe has 10 s; a lost one is replaced.
        expect(
            (0..<50 as Range<UInt64>).contains {
                choice(table, random: $0 &* 0x9e37_79b9_7f4a_7c15, at: later + 10 * second)?.isProbe == true
            })
    }

    @Test("The lowest tier with a usable target is used")
    func tiers() {
        let table = table(weights: [100, 100, 100], tiers: [1, 0, 2])
        expect((0..<3).map { table[$0].configurationIndex }, equals: [1, 0, 2])
        expect(choice(table)?.first, equals: 0)
        table[0].state.apply(.checkFailed, now: now)
        expect(choice(table)?.first, equals: 1)
        table[1].state.apply(.drained, now: now)
        expect(choice(table)?.first, equals: 2)
        table[0].state.apply(.checkPassed, now: now)
        expect(choice(table)?.first, equals: 0)
    }

    @Test("A target that was tried is not selected again, and a higher tier is used if the lower one was tried")
    func tried() {
        let table = table(weights: [100, 100, 100], tiers: [0, 0, 1])
        var tried = TriedTargets()
        tried.insert(table[0].state.slot)
        for random in [0, UInt64.max] { expect(choice(table, tried: tried, random: random)?.first, equals: 1) }
        tried.insert(table[1].state.slot)
        expect(choice(table, tried: tried)?.first, equals: 2)
        tried.insert(table[2].state.slot)
        expect(rejection(table, tried: tried), equals: .noTarget)
    }

    @Test("A target with the maximum number of requests gets no more; if all have it, the request waits")
    func limit() {
        let table = table(weights: [100, 100], tiers: [0, 0], limit: 2)
        for _ in 0..<2 { table.started(0, now: now) }
        measure(table, 0, milliseconds: 1)
        measure(table, 1, milliseconds: 900)
        expect(choice(table)?.first, equals: 1)
        table.started(1, now: now)
        expect(choice(table)?.first, equals: 1)
        table.started(1, now: now)
        expect(rejection(table), equals: .cap)
        // A tier whose targets are full is not replaced by the next one.
        let tiers = self.table(weights: [100, 100], tiers: [0, 1], limit: 1)
        tiers.started(0, now: now)
        expect(rejection(tiers), equals: .cap)
        // Also if there is only one target, or none is usable.
        let one = self.table(weights: [100], limit: 1)
        expect(choice(one)?.first, equals: 0)
        one.started(0, now: now)
        expect(rejection(one), equals: .cap)
        one[0].state.apply(.checkFailed, now: now)
        expect(rejection(one), equals: .cap)
    }

    @Test("Of a class with a target that is not usable, the others have the weight that remains")
    func weightOfUsable() {
        let table = table(weights: [200, 100, 100])
        for index in 0..<3 { measure(table, index, milliseconds: 10) }
        table[2].state.apply(.checkFailed, now: now)
        let shares = shares(table)
        expect(abs(shares[0] - 2.0 / 3) < 0.02 && shares[2] == 0)
    }

    @Test("The table knows whether all of its targets are usable, draining ones and removed ones included")
    func allUsable() {
        let table = table(weights: [100, 200, 0])
        expect(!table.isAllUsable)
        table[2].state.apply(.drained, now: now)
        expect(table.isAllUsable)
        table[2].state.apply(.checkFailed, now: now)
        expect(table.isAllUsable)
        eject(table, 0)
        table[0].state.apply(.checkFailed, now: now)
        expect(!table.isAllUsable)
        table[0].state.apply(.checkPassed, now: now)
        expect(!table.isAllUsable && table[0].state.claimProbe(time: second, now: now + 10 * second))
        expect(!table.isAllUsable)
        table[0].state.apply(.requestSucceeded(startedAt: now + 10 * second), now: now + 11 * second)
        expect(table.isAllUsable)
        let slots = TargetSlots()
        var removed: TargetState? = TargetState(testIdentity(0), slots: slots)
        removed?.apply(.drained, now: now)
        let count = slots.unusable.load(ordering: .relaxed)
        removed = nil
        let later = slots.unusable.load(ordering: .relaxed)
        expect(count == 1 && later == 0 && removed == nil)
    }

    @Test("A drawn target gives way only if it costs more than 8 times as much as one of a large class")
    func givesWay() {
        let table = table(weights: [400, 100])
        measure(table, 1, milliseconds: 10)
        measure(table, 0, milliseconds: 79)
        #expect(abs(shares(table)[0] - 0.8) < 0.02)
        measure(table, 0, milliseconds: 90)
        #expect(shares(table)[0] < 0.001)
        // A canary with 1 % gets no more.
        let canary = self.table(weights: [990, 10])
        measure(canary, 0, milliseconds: 1_000)
        measure(canary, 1, milliseconds: 1)
        #expect(shares(canary)[1] < 0.02)
        // In a tier of its own weights, 10 % is large.
        let large = self.table(weights: [900, 100])
        measure(large, 0, milliseconds: 1_000)
        measure(large, 1, milliseconds: 1)
        #expect(shares(large)[1] > 0.99)
    }

    @Test("Without a usable target, those that are only down by checks are selected, alike")
    func panicDown() {
        let table = table(weights: [100, 100, 100])
        for index in 0..<3 {
            measure(table, index, milliseconds: 10)
            table[index].state.apply(.checkFailed, now: now)
        }
        eject(table, 0)
        let shares = shares(table)
        expect(shares[0] == 0 && abs(shares[1] - 0.5) < 0.02)
        expect(choice(table)?.isPanic, equals: true)
    }

    @Test(
        "Without a usable target, the one whose back-off ends first is selected, and a draining one only if all drain")
    func panicSoonest() {
        let table = table(weights: [100, 100, 100])
        eject(table, 0, at: now - 2 * second)
        eject(table, 1, at: now - 5 * second)
        eject(table, 2, at: now - 8 * second)
        table[2].state.apply(.drained, now: now)
        expect(choice(table), equals: TargetPicker.Choice(first: 1, isPanic: true))
        var tried = TriedTargets()
        tried.insert(table[1].state.slot)
        expect(choice(table, tried: tried), equals: TargetPicker.Choice(first: 0, isPanic: true))
        // As after a reload with weight 0 for all of them, for requests that began before it.
        for index in 0..<2 { table[index].state.apply(.drained, now: now) }
        expect(choice(table), equals: TargetPicker.Choice(first: 0, isPanic: true))
        tried.insert(table[0].state.slot)
        expect(choice(table, tried: tried), equals: TargetPicker.Choice(first: 2, isPanic: true))
        tried.insert(table[2].state.slot)
        expect(rejection(table, tried: tried), equals: .noTarget)
    }

    @Test("The entries of a table are limited and sorted by tier and weight, draining ones last")
    func tables() {
        let table = table(weights: [0, 100, 300, 100], tiers: [0, 1, 1, 0])
        expect(table.entries.map(\.configurationIndex), equals: [3, 2, 1, 0])
        expect(table.selectable == 3 && table.tiers.count == 2 && table.classes.count == 3)
        expect(self.table(weights: Array(repeating: 1, count: 300)).count, equals: 256)
    }

    @Test("The last of 256 targets can be selected, in the fast path and in a search")
    func lastOfMany() {
        let table = table(weights: Array(repeating: 100, count: 256))
        expect(choice(table, random: .max).map { [$0.first, $0.second].contains(255) }, equals: true)
        for index in 0..<255 { table[index].state.apply(.checkFailed, now: now) }
        expect(choice(table)?.first, equals: 255)
    }

    @Test("A set of tried targets has the last four")
    func triedSet() {
        var tried = TriedTargets()
        expect(tried.isEmpty && !tried.contains(0))
        for slot in [0, 65_534, 7, 7, 9] { tried.insert(slot) }
        for slot in [0, 65_534, 7, 9] { expect(tried.contains(slot)) }
        tried.insert(11)
        expect(!tried.contains(0) && tried.contains(11) && !tried.isEmpty)
    }
}

@Suite("Candidates")
struct CandidatesTests {
    @Test("The n-th candidate of a range is found", arguments: [0..<256, 5..<70, 63..<65, 64..<128, 10..<11, 3..<3])
    func select(range: Range<Int>) {
        var random = SeededGenerator(seed: UInt64(range.count))
        for _ in 0..<50 {
            var candidates = Candidates()
            var expected: [Int] = []
            for index in 0..<256 where random.next() % 3 == 0 {
                candidates.insert(index)
                if range.contains(index) { expected.append(index) }
            }
            expect(candidates.count(in: range), equals: expected.count)
            expect(expected.indices.map { candidates.index($0, in: range) }, equals: expected)
            expect(candidates.index(expected.count, in: range), equals: range.lowerBound)
        }
        expect(Candidates().isEmpty)
    }
}
