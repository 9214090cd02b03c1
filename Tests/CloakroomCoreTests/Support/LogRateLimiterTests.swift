import CloakroomCore
import TestSupport
import Testing

@Suite("A limit per time window")
struct FixedWindowLimiterTests {
    private static let second: UInt64 = 1_000_000_000

    private static func spend(_ limiter: inout FixedWindowLimiter, at now: UInt64) -> Int {
        var count = 0
        while count < 100_000, limiter.tryAcquire(at: now) != nil { count += 1 }
        return count
    }

    @Test("Is used up at its limit, until the end of the window")
    func spent() {
        var limiter = FixedWindowLimiter(limit: 2_000)
        expect(Self.spend(&limiter, at: 5), equals: 2_000)
        expect(Self.spend(&limiter, at: 5), equals: 0)
        expect(Self.spend(&limiter, at: 9 * Self.second), equals: 0)
    }

    @Test("Is full again in the next window")
    func refreshed() {
        var limiter = FixedWindowLimiter(limit: 2_000)
        _ = Self.spend(&limiter, at: 5)
        expect(Self.spend(&limiter, at: 5 + 10 * Self.second), equals: 2_000)
    }

    @Test("Is never used up by a client below the limit")
    func seldom() {
        var limiter = FixedWindowLimiter(limit: 2_000)
        let moments = (0..<10_000).map { UInt64($0) * Self.second / 100 }
        let allowed = moments.filter { limiter.tryAcquire(at: $0) != nil }
        expect(allowed, equals: moments)
    }

    @Test("Returns the number of suppressed events with the first event of the next window")
    func suppressed() {
        var limiter = FixedWindowLimiter(limit: 2)
        expect((0..<5).map { limiter.tryAcquire(at: $0) }, equals: [0, 0, nil, nil, nil])
        expect(limiter.tryAcquire(at: 10 * Self.second), equals: 3)
        expect(limiter.tryAcquire(at: 10 * Self.second), equals: 0)
        expect(limiter.tryAcquire(at: 30 * Self.second), equals: 0)
    }

    @Test("The length of the window can be chosen, and whether it has room is known without using it")
    func window() {
        var limiter = FixedWindowLimiter(limit: 1, window: .seconds(60))
        expect(limiter.allows(at: 0) && limiter.tryAcquire(at: 0) == 0)
        expect(!limiter.allows(at: 59 * Self.second) && limiter.tryAcquire(at: 59 * Self.second) == nil)
        expect(limiter.allows(at: 60 * Self.second) && limiter.allows(at: 60 * Self.second))
        expect(limiter.tryAcquire(at: 60 * Self.second), equals: 1)
        expect(LogRateLimiter(interval: .seconds(60)).allow(at: 0), equals: 0)
    }

    @Test("Times of other threads that are slightly earlier belong to the same window")
    func earlier() {
        var limiter = FixedWindowLimiter(limit: 1)
        expect(limiter.tryAcquire(at: 20 * Self.second), equals: 0)
        expect(limiter.tryAcquire(at: 20 * Self.second - 1), equals: nil)
    }
}

@Suite("A limit of log lines")
struct LogRateLimiterTests {
    @Test("One line per 10 s is allowed, with the number of lines suppressed since the last one")
    func interval() {
        let lines = LogRateLimiter()
        let second: UInt64 = 1_000_000_000
        let times = [0, 1, 9, 10, 11, 25, 26] as [UInt64]
        expect(times.map { lines.allow(at: $0 * second) }, equals: [0, nil, nil, 2, nil, 1, nil])
    }

    @Test("A wall clock that is set back does not suppress lines, also before 1970")
    func clock() {
        let lines = LogRateLimiter()
        let times = [100, 109, 50, 51, -50, -45, -40] as [Int64]
        expect(times.map { lines.allow(at: WallTime(seconds: $0)) }, equals: [0, nil, 1, nil, 1, nil, 1])
    }

    @Test("Lines that several threads suppress at once are all counted")
    func several() async {
        let lines = LogRateLimiter(limit: 3, interval: .seconds(10))
        let allowed = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask { (0..<1_000).filter { lines.allow(at: 5 + UInt64($0)) != nil }.count }
            }
            return await group.reduce(0, +)
        }
        expect(allowed, equals: 3)
        expect(lines.allow(at: 20_000_000_000), equals: 3_997)
    }
}
