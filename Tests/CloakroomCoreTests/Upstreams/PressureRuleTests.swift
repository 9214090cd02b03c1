import CloakroomCore
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
        #expect(rule.select(1, of: leases) == [2])
        #expect(rule.select(3, of: leases) == [2, 1, 3])
        #expect(rule.select(9, of: leases) == [2, 1, 3, 0])
        #expect(rule.select(0, of: leases).isEmpty)
    }

    @Test("A lease of up to 5 s never ends, nor one that moves at the rate")
    func spared() {
        #expect(rule.select(9, of: [Self.lease(0, 5), Self.lease(0, 0)]).isEmpty)
        #expect(rule.select(9, of: [Self.lease(163_840, 10), Self.lease(163_839, 10)]) == [1])
    }

    @Test("Of leases that moved nothing the oldest ends first")
    func oldest() {
        #expect(rule.select(1, of: [Self.lease(0, 6), Self.lease(0, 9), Self.lease(0, 7)]) == [1])
    }

    @Test("A rate of 0 ends none, and extreme numbers are no error")
    func extremes() {
        #expect(PressureRule(rate: 0).select(9, of: [Self.lease(0, 100)]).isEmpty)
        let leases = [
            PressureRule.Lease(moved: .min, age: .max), PressureRule.Lease(moved: .max, age: .max),
            PressureRule.Lease(moved: .max, age: 0),
        ]
        #expect(rule.select(.max, of: leases) == [0])
        #expect(rule.select(.min, of: leases).isEmpty)
    }
}
