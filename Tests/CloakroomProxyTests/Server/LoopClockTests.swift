import CloakroomCore
import Foundation
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Dates and time")
struct LoopClockTests {
    private func rendered(_ seconds: Int64) -> String {
        String(decoding: HTTPDate.render(secondsSinceEpoch: seconds), as: UTF8.self)
    }

    @Test(
        "Dates have the preferred form (RFC 9110 §5.6.7)",
        arguments: [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] as [(Int64, String)])
    func table(seconds: Int64, expected: String) {
        #expect(rendered(seconds) == expected)
    }

    @Test("Every date is formatted as by the platform's calendar")
    func againstFoundation() {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.calendar = Calendar(identifier: .gregorian)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        var generator = SeededGenerator(seed: 20)
        for _ in 0..<1_000 {
            // From 1970 to the year 5138.
            let seconds = Int64.random(in: 0...100_000_000_000, using: &generator)
            #expect(rendered(seconds) == formatter.string(from: Date(timeIntervalSince1970: Double(seconds))))
        }
    }

    @Test("Session time is monotonic across all event loops")
    func sessionTime() {
        let clock = SessionClock()
        #expect(clock.monotonicOffset(10_000) == 10_000)
        // The wall clock is set back, and then forward again.
        #expect(clock.monotonicOffset(4_000) == 10_000)
        #expect(clock.monotonicOffset(12_000) == 12_000)
        #expect(SessionClock(isMonotonic: false).monotonicOffset(9) == 9)
        let shared = SessionClock(isMonotonic: false)
        #expect([10, 4, 12].map { shared.monotonicOffset($0) } == [10, 4, 12])
        // A loop that has not synchronized since extrapolates its last time, which is not later than the others.
        var loop = LoopClock(clock)
        loop.synchronize(at: 5_000_000_000)
        let ahead = SessionClock()
        _ = ahead.monotonicOffset(loop.wallNanoseconds(at: 0) + 3_600_000_000_000)
        var behind = LoopClock(ahead)
        behind.synchronize(at: 5_000_000_000)
        let lead = behind.sessionNanoseconds(at: 5_000_000_000) - behind.wallNanoseconds(at: 5_000_000_000)
        #expect(abs(lead - 3_600_000_000_000) < 60_000_000_000)
        #expect(
            behind.sessionNanoseconds(at: 7_000_000_000) - behind.sessionNanoseconds(at: 5_000_000_000) == 2_000_000_000
        )
    }

    @Test("Wall-clock time advances with the monotonic clock, whatever the wall clock is set to")
    func wallClock() {
        var clock = LoopClock()
        clock.synchronize(at: 5_000_000_000)
        let wall = Double(clock.wallNanoseconds(at: 5_000_000_000)) / 1e9
        #expect(abs(wall - Date().timeIntervalSince1970) < 30)
        #expect(clock.wallNanoseconds(at: 7_000_000_000) - clock.wallNanoseconds(at: 5_000_000_000) == 2_000_000_000)
    }

    @Test("The rendered date changes with the second, and not earlier")
    func renderedOnce() {
        var clock = LoopClock()
        clock.synchronize(at: 0)
        let intoSecond = UInt64(clock.wallNanoseconds(at: 0) % 1_000_000_000)
        let start = 1_000_000_000 - intoSecond
        let first = clock.date(at: start)
        #expect(clock.date(at: start + 999_999_999) == first)
        #expect(clock.date(at: start + 1_000_000_000) != first)
        let second = clock.wallNanoseconds(at: start) / 1_000_000_000
        #expect(first == HTTPDate.render(secondsSinceEpoch: second))
    }

    @Test("Ids do not repeat, and all their bits vary")
    func generator() {
        var generator = SplitMix64()
        var seen: Set<UInt64> = []
        var ones: UInt64 = 0
        var zeros: UInt64 = 0
        for _ in 0..<10_000 {
            let value = generator.next()
            seen.insert(value)
            ones |= value
            zeros |= ~value
        }
        #expect(seen.count == 10_000)
        #expect(ones == .max)
        #expect(zeros == .max)
        var other = SplitMix64()
        #expect(!seen.contains(other.next()))
    }
}
