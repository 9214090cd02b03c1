import CloakroomCore
import FoundationEssentials

/// The field `Retry-After` (RFC 9110 §10.2.3).
enum RetryAfter {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Parses the delay, given in seconds or as a date. A past date is zero; an invalid value is `nil`.
    static func read(_ value: String, now: Timestamp) -> Duration? {
        let value = value.drop { $0 == " " || $0 == "\t" }
        // Compared as bytes: a digit with a combining mark sorts between two digits.
        if value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            guard !value.isEmpty else { return nil }
            // A number that overflows means a long delay.
            return .seconds(UInt32(value) ?? .max)
        }
        return time(value).map { max(.zero, $0 - now) }
    }

    /// `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that may be sent (RFC 9110 §5.6.7). The two obsolete forms are
    /// ignored, and the gateway's own delay applies.
    private static func time(_ text: Substring) -> Timestamp? {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT",
            let day = number(parts[1], digits: 2), let month = months.firstIndex(of: String(parts[2])),
            let year = number(parts[3], digits: 4)
        else { return nil }
        let clock = parts[4].split(separator: ":", omittingEmptySubsequences: false)
        guard clock.count == 3, let hour = number(clock[0], digits: 2), let minute = number(clock[1], digits: 2),
            let second = number(clock[2], digits: 2), hour < 24, minute < 60, second <= 60, 1...31 ~= day
        else { return nil }
        let date = DateComponents(
            calendar: Calendar(identifier: .gregorian), timeZone: TimeZone(secondsFromGMT: 0), year: year,
            month: month + 1, day: day, hour: hour, minute: minute, second: second
        ).date
        return date.map { Timestamp(seconds: Int64($0.timeIntervalSince1970)) }
    }

    private static func number(_ text: Substring, digits: Int) -> Int? {
        guard text.utf8.count == digits, text.allSatisfy({ "0"..."9" ~= $0 }) else { return nil }
        return Int(text)
    }
}
