import CloakroomWire
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Shares of targets")
struct TargetPickerSharesTests {
    private static let now: UInt64 = 3_600_000_000_000

    private static func table(weights: [Int]) -> TargetTable {
        let targets = weights.enumerated().map { index, weight in
            TargetSpecification(
                TargetIdentity(upstream: "api", scheme: .http, host: "target-\(index)", port: 80), weight: weight,
                configurationIndex: index)
        }
        return UpstreamBoard(name: "api", settings: BoardSettings(), targets: targets, now: now).table
    }

    /// The share of each configured target; the picked requests do not stay in flight.
    private static func shares(in table: TargetTable, picks: Int = 20_000) -> [Double] {
        var random = SeededGenerator(seed: 7)
        var turn: UInt32 = 0
        var counts = Array(repeating: 0.0, count: table.count)
        for _ in 0..<picks {
            let pick = TargetPicker.pick(table, random: random.next(), turn: &turn, now: now)
            if case .target(let choice) = pick { counts[table[choice.first].configurationIndex] += 1 }
        }
        return counts.map { $0 / Double(picks) }
    }

    @Test("Each ordered pair of different targets is drawn equally often", arguments: [2, 3, 10])
    func pairs(_ count: Int) {
        var random = SeededGenerator(seed: 1)
        var counts = Array(repeating: Array(repeating: 0, count: count), count: count)
        let draws = 10_000 * count * (count - 1)
        for _ in 0..<draws {
            let pair = TargetPicker.draw(of: count, random.next())
            counts[pair.first][pair.second] += 1
        }
        for first in 0..<count {
            for second in 0..<count {
                let range = first == second ? 0...0 : 9_500...10_500
                expect(range.contains(counts[first][second]), "\(first), \(second): \(counts[first][second])")
            }
        }
        for extreme in [0, UInt64.max, 0xffff_ffff, 0xffff_ffff_0000_0000] {
            let pair = TargetPicker.draw(of: count, extreme)
            expect(pair.first != pair.second)
            expect((0..<count).contains(pair.first) && (0..<count).contains(pair.second))
        }
    }

    @Test("Targets that are alike have equal shares")
    func alike() {
        for share in Self.shares(in: Self.table(weights: [100, 100, 100, 100])) {
            #expect(abs(share - 0.25) < 0.02)
        }
    }

    @Test(
        "Weights are kept to within 1 % if no request is in flight",
        arguments: [[400, 100, 100, 100, 100], [990, 10], [1, 1_000], [2, 1]])
    func weightsAlone(_ weights: [Int]) {
        let table = Self.table(weights: weights)
        for entry in table.entries { entry.state.headReceived(after: 10_000_000, now: Self.now) }
        let total = Double(weights.reduce(0, +))
        for (share, weight) in zip(Self.shares(in: table, picks: 50_000), weights) {
            #expect(abs(share - Double(weight) / total) < 0.006)
        }
    }

    @Test(
        "A target's share follows its weight, also if requests in flight do",
        arguments: [[1_000, 100, 100], [400, 100, 100, 100, 100], [990, 10]])
    func weights(_ weights: [Int]) {
        let table = Self.table(weights: weights)
        for entry in table.entries {
            entry.state.started(now: Self.now)
            entry.state.headReceived(after: 10_000_000, now: Self.now)
            entry.state.ended(owesHead: true)
            // 100 requests in flight to a target of weight 1,000.
            for _ in 0..<entry.weight / 10 { entry.state.started(now: Self.now, isTimed: false) }
        }
        let total = Double(weights.reduce(0, +))
        for (share, weight) in zip(Self.shares(in: table), weights) {
            #expect(abs(share - Double(weight) / total) < 0.01)
        }
    }

    @Test("A heavy target that costs more than eight times as much for its weight gives way")
    func givesWay() {
        let table = Self.table(weights: [400, 100, 100, 100, 100])
        for entry in table.entries {
            let time: UInt64 = entry.weight == 400 ? 100_000_000 : 10_000_000
            entry.state.started(now: Self.now)
            entry.state.headReceived(after: time, now: Self.now)
            entry.state.ended(owesHead: true)
            for _ in 0..<entry.weight * 3 / 100 { entry.state.started(now: Self.now, isTimed: false) }
        }
        #expect(Self.shares(in: table)[0] < 0.01)
    }
}
