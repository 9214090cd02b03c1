/// A date and time of the Gregorian calendar in UTC, to the second.
public struct CivilDate: Equatable, Sendable {
    /// The year.
    public var year: Int
    /// The month, 1...12.
    public var month: Int
    /// The day of the month, 1...31.
    public var day: Int
    /// The hour, 0...23.
    public var hour = 0
    /// The minute, 0...59.
    public var minute = 0
    /// The second, 0...59; 60 is a leap second, the same time as the next second.
    public var second = 0
}

extension CivilDate {
    /// Counts in eras of 400 years with 146,097 days each, and in years that begin in March, so the leap day is the
    /// last day of the year.
    public init(secondsSinceEpoch: Int64) {
        let days = secondsSinceEpoch.floorDivided(by: 86_400)
        let secondOfDay = Int(secondsSinceEpoch - days * 86_400)
        hour = secondOfDay / 3_600
        minute = secondOfDay / 60 % 60
        second = secondOfDay % 60
        let sinceMarch0000 = days + 719_468
        let era = Int(sinceMarch0000.floorDivided(by: 146_097))
        let dayOfEra = Int(sinceMarch0000) - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        year = era * 400 + yearOfEra + (month <= 2 ? 1 : 0)
    }

    /// Seconds since 1970-01-01T00:00:00Z. A day after the last one of its month counts into the next month.
    public var secondsSinceEpoch: Int64 {
        let yearFromMarch = Int64(month <= 2 ? year - 1 : year)
        let era = yearFromMarch.floorDivided(by: 400)
        let yearOfEra = yearFromMarch - era * 400
        let monthFromMarch = month <= 2 ? month + 9 : month - 3
        let dayOfYear = Int64((153 * monthFromMarch + 2) / 5 + day - 1)
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * 146_097 + dayOfEra - 719_468
        return days * 86_400 + Int64(hour * 3_600 + minute * 60 + second)
    }
}

extension WallTime {
    /// ISO 8601 in UTC, to the second: `1994-11-06T08:49:37Z`. Clients can parse only years of four digits (RFC 3339
    /// §5.6): times before the year 1 and after 9999 are the first and the last of those.
    package var iso8601: String {
        let seconds = milliseconds.floorDivided(by: 1_000)
        let date = CivilDate(secondsSinceEpoch: min(max(seconds, -62_135_596_800), 253_402_300_799))
        var text = Array("0000-00-00T00:00:00Z".utf8)
        let numbers = [date.year, date.month, date.day, date.hour, date.minute, date.second]
        for (var number, var place) in zip(numbers, [3, 6, 9, 12, 15, 18]) {
            while number > 0 {
                text[place] += UInt8(number % 10)
                (number, place) = (number / 10, place - 1)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// IMF-fixdate, the preferred date format of HTTP (RFC 9110 §5.6.7).
public enum HTTPDate {
    private static let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Renders a time as `Sun, 06 Nov 1994 08:49:37 GMT`.
    public static func render(secondsSinceEpoch seconds: Int64) -> [UInt8] {
        let days = seconds.floorDivided(by: 86_400)
        let weekday = weekdays[Int(days - days.floorDivided(by: 7) * 7)]
        let date = CivilDate(secondsSinceEpoch: seconds)
        let time = [date.hour, date.minute, date.second].map { $0.padded() }.joined(separator: ":")
        return Array("\(weekday), \(date.day.padded()) \(months[date.month - 1]) \(date.year) \(time) GMT".utf8)
    }

    /// Parses a time in this format, the only one that may be sent; `nil` for anything else, the two obsolete formats
    /// included. The name of the day is not checked.
    public static func parse(_ text: some StringProtocol) -> WallTime? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT",
            let day = number(parts[1], digits: 2), let month = months.firstIndex(of: String(parts[2])),
            let year = number(parts[3], digits: 4)
        else { return nil }
        let clock = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3, let hour = number(clock[0], digits: 2), let minute = number(clock[1], digits: 2),
            let second = number(clock[2], digits: 2), hour < 24, minute < 60, second <= 60, 1...31 ~= day
        else { return nil }
        let date = CivilDate(year: year, month: month + 1, day: day, hour: hour, minute: minute, second: second)
        return WallTime(seconds: date.secondsSinceEpoch)
    }

    private static func number(_ text: some StringProtocol, digits: Int) -> Int? {
        guard text.utf8.count == digits, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int(text)
    }
}

extension Int {
    /// The digits of a number that is not negative, with leading zeros.
    fileprivate func padded() -> String { self < 10 ? "0\(self)" : "\(self)" }
}

extension Int64 {
    /// The quotient rounded down, also for negative numbers.
    package func floorDivided(by divisor: Int64) -> Int64 {
        let (quotient, remainder) = quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? quotient - 1 : quotient
    }
}
