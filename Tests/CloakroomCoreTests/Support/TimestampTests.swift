import CloakroomCore
import Testing

@Suite("Timestamps")
struct TimestampTests {
    private let first = WallTime(milliseconds: .min)
    private let last = WallTime(milliseconds: .max)

    @Test("Timestamps and durations are added and subtracted")
    func arithmetic() {
        let time = WallTime(seconds: 10)
        #expect(time.milliseconds == 10_000)
        #expect(time + .milliseconds(1) == WallTime(milliseconds: 10_001))
        #expect(time - .seconds(11) == WallTime(seconds: -1))
        #expect(time - WallTime(milliseconds: 9_999) == .milliseconds(1))
        #expect(WallTime(seconds: 1) < WallTime(seconds: 2))
    }

    @Test("Overflow saturates")
    func saturation() {
        #expect(last + .seconds(1) == last)
        #expect(first - .seconds(1) == first)
        #expect(first + .seconds(-1) == first)
        #expect(last - .seconds(-1) == last)
        #expect(WallTime(seconds: 0) + .seconds(Int64.max) == last)
        #expect(WallTime(seconds: -1_000) - .seconds(Int64.max) == first)
        #expect(WallTime(seconds: .max) == last)
        #expect(WallTime(seconds: .min) == first)
        #expect(last - first == .milliseconds(Int64.max))
        #expect(first - last == .milliseconds(Int64.min))
        #expect(last - WallTime(milliseconds: -1) > .zero)
    }

    @Test("A wall clock that is centuries ahead or behind is read as the last or first time that is left for sums")
    func wallClock() {
        let age: Int64 = 5 * 365 * 86_400 * 1_000_000_000
        #expect(Int64(wallSeconds: 1_800_000_000, nanoseconds: 7) == 1_800_000_000_000_000_007)
        for (seconds, limit) in [(9_700_000_000, 9_000_000_000), (Int.max, 9_000_000_000), (.min, -9_000_000_000)] {
            let time = Int64(wallSeconds: seconds, nanoseconds: 999_999_999)
            #expect(time / 1_000_000_000 == Int64(limit) + (limit < 0 ? 1 : 0))
            #expect(!time.addingReportingOverflow(age).overflow && !time.subtractingReportingOverflow(age).overflow)
        }
    }

    @Test("Durations are converted to whole milliseconds and nanoseconds, saturating at the limits")
    func durations() {
        #expect(Duration.microseconds(1_999).wholeMilliseconds == 1)
        #expect(Duration.microseconds(-1_999).wholeMilliseconds == -1)
        #expect(Duration.seconds(Int64.max).wholeMilliseconds == .max)
        #expect(Duration.seconds(Int64.min).wholeMilliseconds == .min)
        #expect(Duration.microseconds(3).wholeNanoseconds == 3_000)
        #expect(Duration.seconds(-1).wholeNanoseconds == 0)
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect((Duration.seconds(18_446_744_073) + .milliseconds(999)).wholeNanoseconds == .max)
    }
}
