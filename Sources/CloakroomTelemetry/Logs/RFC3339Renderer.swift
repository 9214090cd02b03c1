import Glibc

/// Renders wall-clock times as RFC 3339 in UTC with milliseconds. The last rendered second is cached, because many
/// requests share a second and the calendar arithmetic is expensive.
struct RFC3339Renderer {
    private var second = Int64.min
    private var rendered: [UInt8] = []

    /// Appends `2026-01-31T23:59:59.123Z`.
    mutating func append(_ nanosecondsSinceEpoch: Int64, to line: inout LineBuffer) {
        let second = nanosecondsSinceEpoch.floorDivided(by: 1_000_000_000)
        if second != self.second {
            self.second = second
            rendered = Self.render(second)
        }
        line.append(rendered)
        let milliseconds = (nanosecondsSinceEpoch - second * 1_000_000_000) / 1_000_000
        line.append(padded: Int(milliseconds), digits: 3)
        line.append(byte: UInt8(ascii: "Z"))
    }

    /// The text up to and including the decimal point.
    private static func render(_ second: Int64) -> [UInt8] {
        let day = second.floorDivided(by: 86_400)
        let secondOfDay = Int(second - day * 86_400)
        let date = CivilDate(daysSinceEpoch: Int(day))
        var line = LineBuffer(reserving: 20)
        line.append(padded: date.year, digits: 4)
        line.append("-")
        line.append(padded: date.month, digits: 2)
        line.append("-")
        line.append(padded: date.day, digits: 2)
        line.append("T")
        line.append(padded: secondOfDay / 3_600, digits: 2)
        line.append(":")
        line.append(padded: secondOfDay / 60 % 60, digits: 2)
        line.append(":")
        line.append(padded: secondOfDay % 60, digits: 2)
        line.append(".")
        return line.bytes
    }
}

/// A day of the Gregorian calendar.
public struct CivilDate: Equatable, Sendable {
    /// The year.
    public let year: Int
    /// The month, 1...12.
    public let month: Int
    /// The day of the month, 1...31.
    public let day: Int

    /// Counts in eras of 400 years with 146,097 days each, and in years that begin in March, so the leap day is the
    /// last day of the year.
    public init(daysSinceEpoch: Int) {
        let sinceMarch0000 = daysSinceEpoch + 719_468
        let era = Int(Int64(sinceMarch0000).floorDivided(by: 146_097))
        let dayOfEra = sinceMarch0000 - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    }
}

extension Int64 {
    fileprivate func floorDivided(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}

/// The wall clock in nanoseconds since 1970-01-01T00:00:00Z. Injected everywhere, so tests can control the time.
public typealias WallClock = @Sendable () -> Int64

/// The system clock.
public func systemWallClock() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
}
