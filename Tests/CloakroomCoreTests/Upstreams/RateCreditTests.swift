import TestSupport
import Testing

@testable import CloakroomCore

@Suite("The credit of slow clients")
struct RateCreditTests {
    private static let second: UInt64 = 1_000_000_000
    private static let limit = RateCredit.Limit(time: 30 * second, minimumRate: 256)

    /// When a client uses up its credit that sends `bytes` every `pause` seconds; `nil` if it does not within an hour.
    private static func end(_ limit: RateCredit.Limit = limit, bytes: Int, every pause: Double) -> Double? {
        var credit = RateCredit(limit)
        var end = credit.start(now: 0)
        var now: UInt64 = 0
        while now < 3_600 * second {
            now += UInt64(pause * Double(second))
            if end <= now { return Double(end) / Double(second) }
            end = credit.moved(bytes, now: now)
        }
        return nil
    }

    @Test("A client that sends nothing has the whole time")
    func silence() {
        var credit = RateCredit(Self.limit)
        expect(credit.start(now: 5), equals: 30 * Self.second + 5)
        expect(!credit.isUsedUp(now: 30 * Self.second))
        expect(credit.isUsedUp(now: 30 * Self.second + 5))
    }

    @Test("A byte every 20 s ends after about 30 s, a byte every second too")
    func trickle() throws {
        let slow = try require(Self.end(bytes: 1, every: 20))
        expect(slow >= 30 && slow < 30.1)
        let steady = try require(Self.end(bytes: 1, every: 1))
        expect(steady >= 30 && steady < 30.2)
    }

    @Test(
        "At the minimum rate or above it, a client is served for any time, however it distributes its bytes",
        arguments: [(256, 1.0), (1_024, 1), (8_192, 8), (7_680, 29.9), (1_000_000, 29.9)])
    func steady(bytes: Int, pause: Double) {
        expect(Self.end(bytes: bytes, every: pause), equals: nil)
    }

    @Test("Below the minimum rate a client ends, and later the nearer it is to it")
    func below() throws {
        let half = try require(Self.end(bytes: 128, every: 1))
        expect(half > 55 && half < 65)
        let most = try require(Self.end(bytes: 230, every: 1))
        #expect(most > 200)
    }

    @Test("The credit never exceeds its time, whatever was sent before")
    func bounded() {
        var credit = RateCredit(Self.limit)
        _ = credit.start(now: 0)
        for now in 1...10 as ClosedRange<UInt64> {
            expect(credit.moved(.max, now: now * Self.second), equals: (now + 30) * Self.second)
        }
        credit.stop(now: 10 * Self.second)
        expect(credit.moved(1 << 40, now: 11 * Self.second), equals: 30 * Self.second)
    }

    @Test("Nothing runs while the credit is stopped, and the rest is kept")
    func stopped() {
        var credit = RateCredit(Self.limit)
        _ = credit.start(now: 0)
        credit.stop(now: 10 * Self.second)
        expect(credit.start(now: 1_000 * Self.second), equals: 1_020 * Self.second)
        credit.stop(now: 2_000 * Self.second)
        expect(credit.isUsedUp(now: 2_000 * Self.second))
        credit.refill(now: 0)
        expect(credit.start(now: 0), equals: 30 * Self.second)
    }

    @Test("A byte after the end does not begin the credit anew; enough bytes for the time since then do")
    func overdue() {
        var credit = RateCredit(Self.limit)
        _ = credit.start(now: 0)
        credit.moved(1, now: 30 * Self.second + 100_000_000)
        expect(credit.isUsedUp(now: 30 * Self.second + 100_000_000))
        credit.moved(256, now: 30 * Self.second + 100_000_000)
        expect(!credit.isUsedUp(now: 30 * Self.second + 100_000_000))
    }

    @Test("Without a minimum rate every byte gives back all of the time")
    func disabled() throws {
        let limit = RateCredit.Limit(time: 30 * Self.second, minimumRate: 0)
        expect(Self.end(limit, bytes: 1, every: 29), equals: nil)
        try expect(require(Self.end(limit, bytes: 1, every: 31)), equals: 30)
        try expect(require(Self.end(limit, bytes: 0, every: 1)), equals: 30)
    }

    @Test("Numbers that a peer chooses neither overflow nor take time away", arguments: [Int.min, -1, 0, 1, .max])
    func extremes(bytes: Int) {
        var credit = RateCredit(RateCredit.Limit(time: .max, minimumRate: 1))
        expect(credit.start(now: .max), equals: .max)
        expect(credit.moved(bytes, now: .max), equals: .max)
        var other = RateCredit(Self.limit)
        let end = other.start(now: 0)
        #expect(other.moved(bytes, now: 0) >= end)
    }
}

@Suite("The credit of clients that read slowly")
struct DrainCreditTests {
    private static let second: UInt64 = 1_000_000_000
    private static let limit = RateCredit.Limit(time: 30 * second, minimumRate: 256)

    /// When a client is cut that acknowledges at a rate and never makes the socket writable; `nil` if not in an hour.
    private static func end(rate: Double) -> Double? {
        var credit = DrainCredit(limit)
        var now: UInt64 = 0
        var deadline = credit.begin(coarse: 0, now: now)
        while now < 3_600 * second {
            // Deadlines are checked every 200 ms.
            now = (deadline / 200_000_000 + 1) * 200_000_000
            guard let next = credit.expired(exact: Int(Double(now) / Double(second) * rate), now: now) else {
                return Double(now) / Double(second)
            }
            #expect(next > now)
            deadline = next
        }
        return nil
    }

    @Test("A client that reads nothing is cut after the time, one at 100 B/s soon after, one at 1 KB/s never")
    func rates() throws {
        try expect(require(Self.end(rate: 0)), equals: 30.2)
        #expect(try require(Self.end(rate: 10)) < 35)
        let slow = try require(Self.end(rate: 100))
        expect(slow > 30 && slow < 60)
        expect(Self.end(rate: 1_024), equals: nil)
    }

    @Test("What was sent before a client fell behind does not count")
    func earlier() {
        var credit = DrainCredit(Self.limit)
        expect(credit.begin(coarse: 1 << 30, now: 0), equals: Self.second)
        expect(credit.expired(exact: 1 << 29, now: Self.second), equals: 30 * Self.second)
        expect(credit.expired(exact: 1 << 29, now: 30 * Self.second), equals: nil)
    }

    @Test("A client that catches up earns by what it took over, and its credit is kept")
    func catchingUp() {
        var credit = DrainCredit(Self.limit)
        _ = credit.begin(coarse: 1_000, now: 0)
        credit.end(coarse: 1_256, now: 20 * Self.second)
        expect(!credit.isBehind)
        _ = credit.begin(coarse: 1_256, now: 100 * Self.second)
        expect(credit.expired(exact: 0, now: 101 * Self.second), equals: 111 * Self.second)
        expect(credit.expired(exact: 0, now: 111 * Self.second), equals: nil)
    }

    @Test("Bytes that were measured while a client was behind are not counted again when it catches up")
    func countedOnce() {
        var credit = DrainCredit(Self.limit)
        _ = credit.begin(coarse: 0, now: 0)
        _ = credit.expired(exact: 0, now: Self.second)
        expect(credit.expired(exact: 2_560, now: 30 * Self.second), equals: 40 * Self.second)
        credit.end(coarse: 2_560, now: 35 * Self.second)
        expect(credit.begin(coarse: 2_560, now: 35 * Self.second), equals: 36 * Self.second)
        expect(credit.expired(exact: 2_560, now: 36 * Self.second), equals: 40 * Self.second)
    }

    @Test("With a short time the first measure is taken early enough to see progress")
    func short() throws {
        var credit = DrainCredit(RateCredit.Limit(time: 400_000_000, minimumRate: 256))
        expect(credit.begin(coarse: 0, now: 0), equals: 100_000_000)
        expect(credit.expired(exact: 0, now: 100_000_000), equals: 400_000_000)
        expect(credit.expired(exact: 1_000, now: 400_000_000), equals: 800_000_000)
        expect(credit.expired(exact: 1_000, now: 800_000_000), equals: nil)
    }
}
