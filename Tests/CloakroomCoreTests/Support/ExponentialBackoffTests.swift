import CloakroomCore
import TestSupport
import Testing

@Suite("Exponential back-off")
struct ExponentialBackoffTests {
    @Test("The delay doubles with each failure up to the maximum")
    func doubling() {
        let backoff = ExponentialBackoff(initial: .seconds(1), maximum: .seconds(30), jitter: 0.25)
        let delays = (1...7).map { backoff.delay(afterFailures: $0, random: 0) }
        expect(delays, equals: [1, 2, 4, 8, 16, 30, 30].map { .seconds($0) })
        expect(backoff.delay(afterFailures: .max, random: 0), equals: .seconds(30))
        expect(backoff.delay(afterFailures: 0, random: 0), equals: .seconds(1))
    }

    @Test("Jitter subtracts at most its part of the delay", arguments: [0, 0.25, 0.5, 1])
    func jitter(part: Double) {
        let backoff = ExponentialBackoff(initial: .milliseconds(50), maximum: .seconds(5), jitter: part)
        for failures in 1...10 {
            let full = backoff.delay(afterFailures: failures, random: 0)
            expect(full, equals: min(.milliseconds(50) * (1 << (failures - 1)), .seconds(5)))
            let half = backoff.delay(afterFailures: failures, random: 1 << 63)
            expect(half, equals: full * (1 - part / 2))
            let shortest = backoff.delay(afterFailures: failures, random: .max)
            expect(shortest >= full * (1 - part) && shortest <= full * (1 - part) + .nanoseconds(1))
        }
    }

    @Test("The largest durations are no overflow")
    func largest() {
        let backoff = ExponentialBackoff(initial: .seconds(Int64.max), maximum: .seconds(Int64.max), jitter: 1)
        #expect(backoff.delay(afterFailures: 1, random: 0) > .seconds(1))
        #expect(backoff.delay(afterFailures: 64, random: .max) >= .zero)
    }
}
