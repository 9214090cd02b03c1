import Testing

@testable import MockAPI

struct ErrorScheduleTests {
    private func failures(of rate: Double, seed: Int = 0, in count: Int) -> [Int] {
        var schedule = ErrorSchedule(rate: rate, seed: seed)
        return (1...count).filter { _ in schedule.nextFails() }
    }

    @Test("the fraction of failures equals the rate, and failures are evenly distributed")
    func share() {
        #expect(failures(of: 0.25, in: 12) == [4, 8, 12])
        #expect(failures(of: 0.5, in: 6) == [2, 4, 6])
        #expect(failures(of: 0.3, in: 1000).count == 300)
    }

    @Test("a rate of 0 fails no requests and a rate of 1 all; other values are clamped")
    func ends() {
        #expect(failures(of: 0, in: 50).isEmpty)
        #expect(failures(of: -1, in: 50).isEmpty)
        #expect(failures(of: .nan, in: 50).isEmpty)
        #expect(failures(of: 1, in: 50).count == 50)
        #expect(failures(of: .infinity, in: 50).count == 50)
    }

    @Test("different seeds fail different requests, the same seed fails the same ones")
    func seed() {
        #expect(failures(of: 0.25, seed: 3, in: 8) == [1, 5])
        #expect(failures(of: 0.25, seed: 3, in: 8) == failures(of: 0.25, seed: 3, in: 8))
        #expect(failures(of: 0.5, seed: .max, in: 10).count == 5)
        #expect(failures(of: 0.5, seed: .min, in: 10).count == 5)
    }
}
