import CloakroomCore
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The clock of an event loop")
struct LoopClockTests {
    @Test("Session time is monotonic across all event loops")
    func sessionTime() {
        let clock = SessionClock()
        expect(clock.monotonicOffset(10_000), equals: 10_000)
        // The wall clock is set back, and then forward again.
        expect(clock.monotonicOffset(4_000), equals: 10_000)
        expect(clock.monotonicOffset(12_000), equals: 12_000)
        expect(SessionClock(isMonotonic: false).monotonicOffset(9), equals: 9)
        let shared = SessionClock(isMonotonic: false)
        expect([10, 4, 12].map { shared.monotonicOffset($0) }, equals: [10, 4, 12])
        // A loop that has not synchronized since extrapolates its last time, which is not later than the others.
        var loop = LoopClock(clock)
        loop.synchronize(at: 5_000_000_000)
        let ahead = SessionClock()
        _ = ahead.monotonicOffset(loop.wallNanoseconds(at: 0) + 3_600_000_000_000)
        var behind = LoopClock(ahead)
        behind.synchronize(at: 5_000_000_000)
        let lead = behind.sessionNanoseconds(at: 5_000_000_000) - behind.wallNanoseconds(at: 5_000_000_000)
        #expect(abs(lead - 3_600_000_000_000) < 60_000_000_000)
        expect(
            behind.sessionNanoseconds(at: 7_000_000_000) - behind.sessionNanoseconds(at: 5_000_000_000),
            equals: 2_000_000_000
        )
    }

    @Test("Wall-clock time advances with the monotonic clock, whatever the wall clock is set to")
    func wallClock() {
        var clock = LoopClock()
        clock.synchronize(at: 5_000_000_000)
        let wall = Double(clock.wallNanoseconds(at: 5_000_000_000)) / 1e9
        #expect(abs(wall - Date().timeIntervalSince1970) < 30)
        expect(
            clock.wallNanoseconds(at: 7_000_000_000) - clock.wallNanoseconds(at: 5_000_000_000), equals: 2_000_000_000)
    }

    @Test("A stepped time begins with the system's time and advances only in steps, and wall-clock time with it")
    func stepped() {
        let before = LoopTime.system.now()
        let time = SteppedTime()
        let start = time.now
        let after = NIODeadline.now().uptimeNanoseconds
        expect(before <= start && start <= after)
        time.advance(by: .seconds(86_400))
        time.advance(by: .milliseconds(1))
        expect(LoopTime.stepped(time).now(), equals: start + 86_400_001_000_000)
        var clock = LoopClock()
        clock.synchronize(at: LoopTime.system.now())
        let wall = Double(clock.wallNanoseconds(at: time.now)) / 1e9
        #expect(abs(wall - Date().timeIntervalSince1970 - 86_400) < 30)
    }

    @Test("The rendered date changes with the second, and not earlier")
    func renderedOnce() {
        var clock = LoopClock()
        clock.synchronize(at: 0)
        let intoSecond = UInt64(clock.wallNanoseconds(at: 0) % 1_000_000_000)
        let start = 1_000_000_000 - intoSecond
        let first = clock.date(at: start)
        expect(clock.date(at: start + 999_999_999), equals: first)
        expect(clock.date(at: start + 1_000_000_000) != first)
        let second = clock.wallNanoseconds(at: start) / 1_000_000_000
        expect(first, equals: HTTPDate.render(secondsSinceEpoch: second))
    }

    @Test("The dates of two seconds that are asked for in turn are those of their seconds")
    func alternating() {
        var clock = LoopClock()
        clock.synchronize(at: 0)
        for _ in 0..<2 {
            for seconds in [10, 11, 10, 13, 12, 11] as [UInt64] {
                let second = clock.wallNanoseconds(at: seconds * 1_000_000_000) / 1_000_000_000
                expect(clock.date(at: seconds * 1_000_000_000), equals: HTTPDate.render(secondsSinceEpoch: second))
            }
        }
    }
}
