import Testing

@testable import CloakroomProxy

@Suite("A limit per time window")
struct FixedWindowLimiterTests {
    private static let second: UInt64 = 1_000_000_000

    private static func spend(_ budget: inout FixedWindowLimiter, at now: UInt64) -> Int {
        var count = 0
        while count < 100_000, budget.tryAcquire(at: now) { count += 1 }
        return count
    }

    @Test("Is used up at its limit, until the end of the window")
    func spent() {
        var budget = FixedWindowLimiter(limit: 2_000)
        #expect(Self.spend(&budget, at: 5) == 2_000)
        #expect(Self.spend(&budget, at: 5) == 0)
        #expect(Self.spend(&budget, at: 9 * Self.second) == 0)
    }

    @Test("Is full again in the next window")
    func refreshed() {
        var budget = FixedWindowLimiter(limit: 2_000)
        _ = Self.spend(&budget, at: 5)
        #expect(Self.spend(&budget, at: 5 + 10 * Self.second) == 2_000)
    }

    @Test("Is never used up by a client below the limit")
    func seldom() {
        var budget = FixedWindowLimiter(limit: 2_000)
        let moments = (0..<10_000).map { UInt64($0) * Self.second / 100 }
        let allowed = moments.filter { budget.tryAcquire(at: $0) }
        #expect(allowed == moments)
    }
}
