import TestSupport
import Testing

@testable import CloakroomCore

private let second: UInt64 = 1_000_000_000

@Suite("Retry budget")
struct RetryBudgetTests {
    private let budget = RetryBudget(RetryConfiguration())

    private func taken(_ budget: RetryBudget, of count: Int) -> Int {
        (0..<count).count { _ in budget.take() }
    }

    @Test("It begins with 10 retries, and without any rate with none")
    func start() {
        expect(taken(RetryBudget(RetryConfiguration()), of: 100), equals: 10)
        expect(taken(RetryBudget(RetryConfiguration(budget: 0, perSecond: 0)), of: 100), equals: 0)
    }

    @Test("Ten first attempts pay one retry, and a second three")
    func rates() {
        _ = taken(budget, of: 10)
        budget.add(firstAttempts: 9)
        expect(!budget.take())
        budget.add(firstAttempts: 1)
        expect(taken(budget, of: 5), equals: 1)
        budget.tick(elapsed: second)
        expect(taken(budget, of: 5), equals: 3)
        budget.tick(elapsed: second / 3 - 10_000_000)
        expect(!budget.take())
        budget.tick(elapsed: second / 3)
        expect(budget.take())
    }

    @Test("The cap is what one second adds, at least 10 retries")
    func cap() {
        for _ in 0..<100 { budget.tick(elapsed: second) }
        expect(budget.available, equals: 10)
        for _ in 0..<100 {
            budget.add(firstAttempts: 1_000)
            budget.tick(elapsed: second)
        }
        expect(budget.available, equals: 103)
        budget.tick(elapsed: second)
        expect(budget.available, equals: 10)
        // The deposits of a longer period are those of its average second.
        budget.add(firstAttempts: 10_000)
        budget.tick(elapsed: 10 * second)
        expect(budget.available, equals: 103)
    }

    @Test("Retries are bounded by a tenth of the requests, three per second, and the cap", arguments: [20, 200, 1_000])
    func bound(perSecond: Int) {
        var retries = 0
        for _ in 0..<60 {
            for _ in 0..<10 {
                budget.add(firstAttempts: perSecond / 10)
                retries += taken(budget, of: perSecond / 10)
            }
            budget.tick(elapsed: second)
        }
        let bound = perSecond * 60 / 10 + 180 + max(perSecond / 10 + 3, 10)
        expect(retries <= bound && retries > bound * 9 / 10)
    }

    @Test("Other rates apply to the same tokens")
    func configure() {
        budget.configure(RetryConfiguration(budget: 1, perSecond: 0))
        expect(taken(budget, of: 20), equals: 10)
        budget.add(firstAttempts: 5)
        expect(taken(budget, of: 20), equals: 5)
        budget.tick(elapsed: second)
        expect(budget.available == 0 && budget.isReplenished)
        budget.configure(RetryConfiguration(budget: 0, perSecond: 0))
        budget.add(firstAttempts: 1_000)
        budget.tick(elapsed: second)
        expect(budget.available == 0 && !budget.isReplenished)
    }

    @Test("Numbers out of range have no effect")
    func ranges() {
        let budget = RetryBudget(RetryConfiguration(budget: .nan, perSecond: -1))
        expect(!budget.take())
        let other = RetryBudget(RetryConfiguration(budget: 1e300, perSecond: .max))
        other.add(firstAttempts: .max)
        other.add(firstAttempts: -5)
        other.tick(elapsed: .max)
        #expect(other.available >= 0)
        other.tick(elapsed: second)
        #expect(other.available <= 1_000)
    }
}
