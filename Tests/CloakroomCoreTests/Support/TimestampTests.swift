import CloakroomCore
import TestSupport
import Testing

@Suite("Timestamps")
struct TimestampTests {
    private let first = WallTime(milliseconds: .min)
    private let last = WallTime(milliseconds: .max)

    @Test("Timestamps and durations are added and subtracted")
    func arithmetic() {
        let time = WallTime(seconds: 10)
        expect(time.milliseconds, equals: 10_000)
        expect(time + .milliseconds(1), equals: WallTime(milliseconds: 10_001))
        expect(time - .seconds(11), equals: WallTime(seconds: -1))
        expect(time - WallTime(milliseconds: 9_999), equals: .milliseconds(1))
        #expect(WallTime(seconds: 1) < WallTime(seconds: 2))
    }

    @Test("Overflow saturates")
    func saturation() {
        expect(last + .seconds(1), equals: last)
        expect(first - .seconds(1), equals: first)
        expect(first + .seconds(-1), equals: first)
        expect(last - .seconds(-1), equals: last)
        expect(WallTime(seconds: 0) + .seconds(Int64.max), equals: last)
        expect(WallTime(seconds: -1_000) - .seconds(Int64.max), equals: first)
        expect(WallTime(seconds: .max), equals: last)
        expect(WallTime(seconds: .min), equals: first)
        expect(last - first, equals: .milliseconds(Int64.max))
        expect(first - last, equals: .milliseconds(Int64.min))
        #expect(last - WallTime(milliseconds: -1) > .zero)
    }

    @Test("A wall clock that is centuries ahead or behind is read as the last or first time that is left for sums")
    func wallClock() {
        let age: Int64 = 5 * 365 * 86_400 * 1_000_000_000
        expect(Int64(wallSeconds: 1_800_000_000, nanoseconds: 7), equals: 1_800_000_000_000_000_007)
        for (seconds, limit) in [(9_700_000_000, 9_000_000_000), (Int.max, 9_000_000_000), (.min, -9_000_000_000)] {
            let time = Int64(wallSeconds: seconds, nanoseconds: 999_999_999)
            expect(time / 1_000_000_000, equals: Int64(limit) + (limit < 0 ? 1 : 0))
            expect(!time.addingReportingOverflow(age).overflow && !time.subtractingReportingOverflow(age).overflow)
        }
    }

    @Test("Durations are converted to whole milliseconds and nanoseconds, saturating at the limits")
    func durations() {
        expect(Duration.microseconds(1_999).wholeMilliseconds, equals: 1)
        expect(Duration.microseconds(-1_999).wholeMilliseconds, equals: -1)
        expect(Duration.seconds(Int64.max).wholeMilliseconds, equals: .max)
        expect(Duration.seconds(Int64.min).wholeMilliseconds, equals: .min)
        expect(Duration.microseconds(3).wholeNanoseconds, equals: 3_000)
        expect(Duration.seconds(-1).wholeNanoseconds, equals: 0)
        expect(Duration.seconds(Int64.max).wholeNanoseconds, equals: .max)
        expect((Duration.seconds(18_446_744_073) + .milliseconds(999)).wholeNanoseconds, equals: .max)
    }
}
