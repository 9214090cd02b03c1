import Testing

@testable import CloakroomProxy

@Suite("A budget for each window of time")
struct FixedWindowLimiterTests {
    private static let second: UInt64 = 1_000_000_000

    private static func spend(_ budget: inout FixedWindowLimiter, at now: UInt64) -> Int {
        var count = 0
        while count < 100_000, budget.tryAcquire(at: now) { count += 1 }
        return count
    }

    @Test("Is spent at some point, and stays so for the rest of its window")
    func spent() {
        var budget = FixedWindowLimiter(limit: 2_000)
        #expect(Self.spend(&budget, at: 5) == 2_000)
        #expect(Self.spend(&budget, at: 5) == 0)
        #expect(Self.spend(&budget, at: 9 * Self.second) == 0)
    }

    @Test("Is whole again in the next window")
    func refreshed() {
        var budget = FixedWindowLimiter(limit: 2_000)
        _ = Self.spend(&budget, at: 5)
        #expect(Self.spend(&budget, at: 5 + 10 * Self.second) == 2_000)
    }

    @Test("Does not end for a client that seldom does it")
    func seldom() {
        var budget = FixedWindowLimiter(limit: 2_000)
        let moments = (0..<10_000).map { UInt64($0) * Self.second / 100 }
        let allowed = moments.filter { budget.tryAcquire(at: $0) }
        #expect(allowed == moments)
    }
}
