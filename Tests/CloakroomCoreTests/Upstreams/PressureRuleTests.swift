import CloakroomCore
import TestSupport
import Testing

@Suite("Which leases end while other requests wait")
struct PressureRuleTests {
    private static let second: UInt64 = 1_000_000_000
    private let rule = PressureRule(rate: 16_384)

    private static func lease(_ moved: Int, _ seconds: Double) -> PressureRule.Lease {
        PressureRule.Lease(moved: moved, age: UInt64(seconds * Double(second)))
    }

    @Test("For each request that waits one lease ends, the slowest first")
    func slowestFirst() {
        let leases = [Self.lease(10_000, 10), Self.lease(100, 10), Self.lease(0, 6), Self.lease(5_000, 10)]
        expect(rule.select(1, of: leases), equals: [2])
        expect(rule.select(3, of: leases), equals: [2, 1, 3])
        expect(rule.select(9, of: leases), equals: [2, 1, 3, 0])
        expect(empty: rule.select(0, of: leases))
    }

    @Test("A lease of up to 5 s never ends, nor one that moves at the rate")
    func spared() {
        expect(empty: rule.select(9, of: [Self.lease(0, 5), Self.lease(0, 0)]))
        expect(rule.select(9, of: [Self.lease(163_840, 10), Self.lease(163_839, 10)]), equals: [1])
    }

    @Test("Of leases that moved nothing the oldest ends first")
    func oldest() {
        expect(rule.select(1, of: [Self.lease(0, 6), Self.lease(0, 9), Self.lease(0, 7)]), equals: [1])
    }

    @Test("A lease that has moved nothing for half a second ends whatever its age and rate")
    func still() {
        let moving = PressureRule.Lease(moved: 1_000_000, age: Self.second, still: Self.second / 2 - 1)
        let paused = PressureRule.Lease(moved: 1_000_000, age: Self.second, still: Self.second / 2)
        expect(rule.select(9, of: [moving, paused]), equals: [1])
    }

    @Test("Of the leases that wait for one client, those beyond a quarter of all end, the slowest first")
    func share() {
        let many = (0..<20).map { PressureRule.Lease(moved: 100_000 + $0, age: 6 * Self.second, client: 7) }
        let others = (0..<20).map { PressureRule.Lease(moved: 200_000 + $0, age: 6 * Self.second, client: 100 + $0) }
        let unknown = (0..<20).map { PressureRule.Lease(moved: 200_000 + $0, age: 6 * Self.second) }
        expect(rule.select(9, of: others + unknown + many, total: 64).map { $0 - 40 }, equals: [0, 1, 2, 3])
        expect(rule.select(2, of: others + unknown + many, total: 64).map { $0 - 40 }, equals: [0, 1])
        // A small pool.
        expect(rule.select(99, of: many, total: 20).count, equals: 12)
        expect(empty: rule.select(99, of: many, total: 80))
        // Up to 5 s none ends for that.
        let young = many.map { PressureRule.Lease(moved: $0.moved, age: 5 * Self.second, client: 7) }
        expect(empty: rule.select(99, of: young, total: 20))
    }

    @Test("A rate of 0 ends none, and extreme numbers are no error")
    func extremes() {
        expect(empty: PressureRule(rate: 0).select(9, of: [Self.lease(0, 100)]))
        let leases = [
            PressureRule.Lease(moved: .min, age: .max), PressureRule.Lease(moved: .max, age: .max),
            PressureRule.Lease(moved: .max, age: 0),
        ]
        expect(rule.select(.max, of: leases), equals: [0])
        expect(empty: rule.select(.min, of: leases))
    }
}
