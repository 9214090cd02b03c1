import CloakroomCore
import Testing

@Suite("Points in time")
struct TimestampTests {
    private let first = Timestamp(milliseconds: .min)
    private let last = Timestamp(milliseconds: .max)

    @Test("Times and durations add and subtract")
    func arithmetic() {
        let time = Timestamp(seconds: 10)
        #expect(time.milliseconds == 10_000)
        #expect(time + .milliseconds(1) == Timestamp(milliseconds: 10_001))
        #expect(time - .seconds(11) == Timestamp(seconds: -1))
        #expect(time - Timestamp(milliseconds: 9_999) == .milliseconds(1))
        #expect(Timestamp(seconds: 1) < Timestamp(seconds: 2))
    }

    @Test("What does not fit stays at the end of time")
    func saturation() {
        #expect(last + .seconds(1) == last)
        #expect(first - .seconds(1) == first)
        #expect(first + .seconds(-1) == first)
        #expect(last - .seconds(-1) == last)
        #expect(Timestamp(seconds: 0) + .seconds(Int64.max) == last)
        #expect(Timestamp(seconds: -1_000) - .seconds(Int64.max) == first)
        #expect(Timestamp(seconds: .max) == last)
        #expect(Timestamp(seconds: .min) == first)
        #expect(last - first == .milliseconds(Int64.max))
        #expect(first - last == .milliseconds(Int64.min))
        #expect(last - Timestamp(milliseconds: -1) > .zero)
    }

    @Test("Durations become whole milliseconds and nanoseconds, within what fits")
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
