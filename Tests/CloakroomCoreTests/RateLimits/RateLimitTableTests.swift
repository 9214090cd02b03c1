import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The table of rate limits")
struct RateLimitTableTests {
    private static let second: UInt64 = 1_000_000_000
    private static let start = 1_000 * second
    private let table = RateLimitTable(keys: 1_024)

    private static func pace(_ count: Int, _ period: RequestRate.Period = .minute, burst: Int) -> RatePace {
        var limit = RateLimit(name: "few")
        limit.requests = RequestRate(count, per: period)
        limit.givenBurst = burst
        return RatePace(limit)
    }

    /// Waits in seconds of one request at each time, in seconds.
    private func waits(_ pace: RatePace, at times: [Double]) -> [Double] {
        let table = RateLimitTable(keys: 1_024)
        return times.map { time in
            let now = Self.start + UInt64((time * Double(Self.second)).rounded())
            return Double(table.charge(7, pace, now: now).wait) / Double(Self.second)
        }
    }

    @Test("A burst is permitted at once, then one request at each interval; a rejected one costs nothing")
    func burst() {
        expect(
            waits(Self.pace(60, burst: 3), at: [0, 0, 0, 0, 0, 0.5, 1, 1, 2.5]), equals: [0, 0, 0, 1, 1, 0.5, 0, 1, 0])
        // The whole burst again after three intervals without a request.
        expect(waits(Self.pace(60, burst: 2), at: [0, 0, 0, 3, 3, 3]), equals: [0, 0, 1, 0, 0, 1])
        expect(waits(Self.pace(1, .hour, burst: 1), at: [0, 1, 3_599, 3_600]), equals: [0, 3_599, 1, 0])
        expect(waits(Self.pace(1_000_000, .second, burst: 1), at: [0, 0, 0.000_001]), equals: [0, 0.000_001, 0])
    }

    @Test("As many requests are permitted as by a bucket that is refilled, in any order of times")
    func model() {
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<50 {
            let burst = Int.random(in: 1...20, using: &generator)
            let pace = Self.pace(Int.random(in: 1...600, using: &generator), burst: burst)
            let table = RateLimitTable(keys: 1_024)
            var now = Self.start
            // In nanoseconds of the rate, so that it is exact.
            var bucket = UInt64(burst) * pace.cost
            for _ in 0..<300 {
                let step = UInt64.random(in: 0...2 * pace.cost, using: &generator)
                now += step
                bucket = min(bucket + step, UInt64(burst) * pace.cost)
                let charge = table.charge(99, pace, now: now)
                expect(charge.wait == 0, equals: bucket >= pace.cost)
                if bucket >= pace.cost {
                    bucket -= pace.cost
                    expect(pace.remaining(after: charge), equals: bucket / pace.cost)
                } else {
                    expect(charge.wait, equals: pace.cost - bucket)
                }
            }
        }
    }

    @Test("A charge can be taken back; without a key nothing is")
    func refund() {
        let pace = Self.pace(60, burst: 1)
        for _ in 0..<3 {
            expect(table.charge(5 << 7, pace, now: Self.start).wait, equals: 0)
            #expect(table.charge(5 << 7, pace, now: Self.start).wait > 0)
            table.refund(5 << 7, pace)
        }
        table.refund(6 << 7, pace)
        expect(table.charge(6 << 7, pace, now: Self.start).wait, equals: 0)
    }

    @Test("Keys with the same high 57 bits are one; otherwise keys are independent")
    func keys() {
        let pace = Self.pace(60, burst: 1)
        expect(
            [0, 127, 128, .max].map { table.charge($0, pace, now: Self.start).wait == 0 },
            equals: [true, false, true, true]
        )
    }

    @Test("A ninth key of a set replaces the one that has used least, and one whose time has passed without loss")
    func eviction() {
        let pace = Self.pace(60, burst: 10)
        // Keys with the same high bits are in one set; the first uses most.
        for key in 1...8 {
            for _ in key...8 { expect(!table.charge(UInt64(key) << 7, pace, now: Self.start).isEviction) }
        }
        expect(table.count(now: Self.start), equals: 8)
        expect(table.charge(9 << 7, pace, now: Self.start).isEviction)
        expect(table.count(now: Self.start), equals: 8)
        // The first still has its charges, the eighth was forgotten.
        expect(table.charge(1 << 7, pace, now: Self.start).used, equals: 9 * Self.second)
        expect(!table.charge(10 << 7, pace, now: Self.start + 2 * Self.second).isEviction)
    }

    @Test("Requests are compared, not times: keys of a slow limit do not replace those of a fast one")
    func rates() {
        let fast = Self.pace(60, burst: 10)
        let slow = Self.pace(10, .hour, burst: 10)
        for _ in 0..<5 { _ = table.charge(1 << 7, fast, now: Self.start) }
        for key in 2...20 { _ = table.charge(UInt64(key) << 7, slow, now: Self.start) }
        expect(table.charge(1 << 7, fast, now: Self.start).used, equals: 6 * Self.second)
        // One that has been idle for longer than a request takes is free, at both rates.
        expect(table.charge(30 << 7, slow, now: Self.start + 7 * Self.second).isEviction, equals: false)
        expect(table.charge(31 << 7, fast, now: Self.start + 361 * Self.second).isEviction, equals: false)
    }

    @Test("Rule 82: invented keys neither enlarge the table nor reject a client that sends within its limit")
    func flood() {
        let table = RateLimitTable(keys: 1_000)
        expect(table.capacity, equals: 1_024)
        let pace = Self.pace(60, burst: 20)
        var generator = SeededGenerator(seed: 2)
        var (rejected, heavy) = (0, 0)
        for request in 0..<100_000 {
            let now = Self.start + UInt64(request) * 1_000_000
            _ = table.charge(generator.next(), pace, now: now)
            if request % 1_000 == 0, table.charge(77 << 40, pace, now: now).wait > 0 { rejected += 1 }
            if request % 100 == 0, table.charge(78 << 50, pace, now: now).wait == 0 { heavy += 1 }
        }
        expect(rejected, equals: 0)
        // 100 s at 10 requests a second: the burst, and one each second.
        expect((119...121).contains(heavy))
    }

    @Test("Several threads that charge one key permit exactly its burst")
    func threads() async {
        let pace = Self.pace(1, .hour, burst: 5_000)
        // Only the insertion of a key can be done twice.
        _ = table.charge(3, pace, now: Self.start)
        let permitted = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    (0..<4_000).count { _ in table.charge(3, pace, now: Self.start).wait == 0 }
                }
            }
            return await group.reduce(0, +)
        }
        expect(permitted, equals: 4_999)
    }

    @Test("Several threads that charge keys and take charges back lose none")
    func manyKeys() async {
        let pace = Self.pace(1, .hour, burst: 200)
        // Each in a set of its own, and inserted by one thread.
        let keys = (0..<100).map { UInt64($0) << 57 }
        for key in keys { _ = table.charge(key, pace, now: Self.start) }
        let permitted = await withTaskGroup(of: Int.self) { group in
            for thread in 0..<4 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(thread))
                    var permitted = 0
                    for step in 0..<20_000 {
                        let key = keys[Int.random(in: 0..<keys.count, using: &generator)]
                        guard table.charge(key, pace, now: Self.start).wait == 0 else { continue }
                        if step % 3 == 0 { table.refund(key, pace) } else { permitted += 1 }
                    }
                    return permitted
                }
            }
            return await group.reduce(0, +)
        }
        let left = keys.reduce(0) { sum, key in
            sum + (0..<200).count { _ in table.charge(key, pace, now: Self.start).wait == 0 }
        }
        expect(permitted + left, equals: keys.count * 199)
    }

    @Test("The process has one table, from the first configuration that needs it on")
    func storage() {
        let storage = RateLimitStorage()
        let table = storage.table(keys: 2_000)
        expect(table.capacity, equals: 2_048)
        expect(storage.table(keys: 1_024) === table)
    }
}

@Suite("Rates and bursts")
struct RateLimitTests {
    private func limit(_ count: Int, _ period: RequestRate.Period, burst: Int? = nil) -> RateLimit {
        var limit = RateLimit(name: "a")
        limit.requests = RequestRate(count, per: period)
        limit.givenBurst = burst
        return limit
    }

    @Test("The burst is by default what six seconds permit, 1 to 100000")
    func burst() {
        expect(limit(600, .minute).burst, equals: 60)
        expect(limit(10, .second).burst, equals: 60)
        expect(limit(1, .minute).burst, equals: 1)
        expect(limit(1_000_000, .second).burst, equals: 100_000)
        expect(limit(600, .minute, burst: 5).burst, equals: 5)
    }

    @Test("Fields contain the burst, and the time until it is complete again, rounded up")
    func policy() {
        expect(RatePace(limit(600, .minute)).policy(named: "a"), equals: "\"a\";q=60;w=6")
        expect(RatePace(limit(1_000, .second, burst: 1)).policy(named: "a"), equals: "\"a\";q=1;w=1")
        expect(RatePace(limit(1, .hour, burst: 2)).policy(named: "a"), equals: "\"a\";q=2;w=7200")
        expect([0, 1, 1_000_000_000, 1_000_000_001].map(RatePace.seconds), equals: [0, 1, 1, 2])
    }

    @Test("The largest limits do not overflow")
    func largest() {
        let table = RateLimitTable(keys: 1_024)
        let pace = RatePace(limit(1, .hour, burst: 100_000), times: 16)
        let charge = table.charge(1, pace, now: 1 << 62)
        expect(charge.wait, equals: 0)
        expect(pace.remaining(after: charge), equals: 1_599_999)
    }

    @Test("Which limits are decided with the session")
    func dependence() {
        let expected: [(RateLimit.Subject, Bool)] = [
            (.address, false), (.route, false), (.session, true), (.account, true), (.claim("a"), true),
        ]
        for (subject, depends) in expected {
            var limit = RateLimit(name: "a")
            limit.subject = subject
            expect(limit.dependsOnSession, equals: depends)
            limit.when = [.init("plan", in: ["free"])]
            expect(limit.dependsOnSession)
        }
    }
}
