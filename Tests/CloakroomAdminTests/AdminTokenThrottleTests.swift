import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("The throttle of wrong admin tokens")
struct AdminTokenThrottleTests {
    private let start = SessionTime(seconds: 1_700_000_000)

    private func attempt(
        _ throttle: AdminTokenThrottle, _ peer: String = "192.0.2.1", _ isRight: Bool = false, after: Duration = .zero
    ) -> AdminTokenThrottle.Outcome {
        throttle.attempt(from: peer, now: start + after, isRight: isRight)
    }

    @Test("Rule 49: the longest wait also rejects an attempt that began earlier")
    func overtaken() {
        let throttle = AdminTokenThrottle()
        var now = Duration.zero
        for seconds in [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60] {
            now += .seconds(seconds)
            expect(attempt(throttle, after: now), equals: .wrong)
        }
        expect(attempt(throttle, after: now - .milliseconds(5)), equals: .throttled(.milliseconds(60_005)))
    }

    @Test("Rule 49: after five wrong tokens in a minute an address waits 1 s, doubling to 1 minute")
    func doubling() {
        let throttle = AdminTokenThrottle()
        for _ in 0..<5 { expect(attempt(throttle), equals: .wrong) }
        var now = Duration.zero
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
            let wait = Duration.seconds(seconds)
            expect(attempt(throttle, after: now + wait - .milliseconds(1)), equals: .throttled(.milliseconds(1)))
            now += wait
            expect(attempt(throttle, after: now), equals: .wrong)
        }
    }

    @Test("Rule 49: a right token is accepted from every address at any time, and does not reset the count")
    func right() {
        let throttle = AdminTokenThrottle()
        for _ in 0..<5 { expect(attempt(throttle), equals: .wrong) }
        expect(attempt(throttle, "192.0.2.2", true), equals: .right)
        expect(attempt(throttle, "2001:db8::1", true), equals: .right)
        for _ in 0..<40 { expect(attempt(throttle, "192.0.2.1", true), equals: .right) }
        expect(attempt(throttle), equals: .throttled(.seconds(1)))
    }

    @Test("Right tokens are not limited, and four wrong ones in a minute cause no delay")
    func usual() {
        let throttle = AdminTokenThrottle()
        for second in 0..<1_000 {
            expect(attempt(throttle, "192.0.2.1", true, after: .seconds(second)), equals: .right)
        }
        for minute in 0..<100 {
            for _ in 0..<4 { expect(attempt(throttle, after: .seconds(60 * minute)), equals: .wrong) }
        }
    }

    @Test("Rule 49: addresses of one IPv6 /64 are one client, and all together have 100 a minute, then one a second")
    func together() {
        let throttle = AdminTokenThrottle()
        for number in 0..<5 { expect(attempt(throttle, "2001:db8::\(number)"), equals: .wrong) }
        expect(attempt(throttle, "2001:db8::ffff"), equals: .throttled(.seconds(1)))
        for number in 0..<95 { expect(attempt(throttle, "192.0.2.\(number)"), equals: .wrong) }
        expect(attempt(throttle, "192.0.2.1"), equals: .throttled(.seconds(1)))
        // The operator is accepted nevertheless.
        expect(attempt(throttle, "192.0.2.1", true), equals: .right)
        expect(attempt(throttle, "192.0.2.2", after: .seconds(1)), equals: .wrong)
        expect(attempt(throttle, "192.0.2.3", after: .seconds(1)), equals: .throttled(.seconds(1)))
        expect(attempt(throttle, "192.0.2.3", after: .seconds(61)), equals: .wrong)
    }

    @Test("Rule 49: wrong tokens from many addresses delay no address that has sent none")
    func operatorElsewhere() {
        let throttle = AdminTokenThrottle()
        for number in 0..<200 { _ = attempt(throttle, "192.0.2.\(number % 28)") }
        expect(attempt(throttle, "192.0.2.1"), equals: .throttled(.seconds(1)))
        expect(attempt(throttle, "198.51.100.1"), equals: .wrong)
        // The first wrong tokens of further addresses do not extend the delay of the others either.
        for number in 0..<50 {
            expect(attempt(throttle, "203.0.113.\(number)", after: .milliseconds(900)), equals: .wrong)
        }
        expect(attempt(throttle, "203.0.113.1", after: .milliseconds(900)), equals: .throttled(.milliseconds(100)))
        expect(attempt(throttle, "203.0.113.1", after: .seconds(1)), equals: .wrong)
    }

    @Test("Rule 49: the number of stored addresses is bounded, and expired ones are removed")
    func bounded() {
        let throttle = AdminTokenThrottle()
        var now = Duration.zero
        for number in 0..<3_000 {
            // Below the limit for all addresses together.
            now += .seconds(1)
            _ = attempt(throttle, "10.\(number / 65_536).\(number / 256 % 256).\(number % 256)", after: now)
            #expect(throttle.count <= AdminTokenThrottle.addressLimit + 1)
        }
        // Expired ones made room, so the last addresses do not share an entry.
        #expect(throttle.count < AdminTokenThrottle.addressLimit)
        expect(attempt(throttle, "198.51.100.1", true, after: now + .seconds(60)), equals: .right)
    }

    @Test("A clock that jumps back blocks no address")
    func clock() {
        let throttle = AdminTokenThrottle()
        for _ in 0..<12 { _ = attempt(throttle, after: .seconds(1_000_000)) }
        expect(attempt(throttle), equals: .wrong)
    }

    @Test("Rule 49: the longest delay does not end when the clock is set back by a millisecond")
    func smallClockChange() {
        let throttle = AdminTokenThrottle()
        var now = Duration.zero
        for wait in [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32] {
            now += .seconds(wait)
            expect(attempt(throttle, after: now), equals: .wrong)
        }
        expect(attempt(throttle, after: now), equals: .throttled(.seconds(60)))
        expect(attempt(throttle, after: now - .milliseconds(1)), equals: .throttled(.milliseconds(60_001)))
    }
}
