import Foundation
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("Dates")
struct CivilDateTests {
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
        expect(rendered(seconds), equals: expected)
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
            expect(rendered(seconds), equals: formatter.string(from: Date(timeIntervalSince1970: Double(seconds))))
        }
    }

    @Test("Times in ISO 8601 have whole seconds, and years from 1 to 9999")
    func iso8601() {
        expect(WallTime(milliseconds: 784_111_777_999).iso8601, equals: "1994-11-06T08:49:37Z")
        expect(WallTime(milliseconds: -1).iso8601, equals: "1969-12-31T23:59:59Z")
        for late in [253_402_300_799_999, 253_402_300_800_000, Int64.max / 1_000, .max] {
            expect(WallTime(milliseconds: late).iso8601, equals: "9999-12-31T23:59:59Z")
        }
        for early in [-62_135_596_800_000, -62_135_596_800_001, Int64.min / 1_000, .min] {
            expect(WallTime(milliseconds: early).iso8601, equals: "0001-01-01T00:00:00Z")
        }
    }

    @Test("Every time is the same after rendering and parsing, and after taking apart and combining")
    func inverse() {
        var generator = SeededGenerator(seed: 21)
        for _ in 0..<1_000 {
            // From the year 1000 to 9999.
            let seconds = Int64.random(in: -30_610_224_000...253_402_300_799, using: &generator)
            expect(CivilDate(secondsSinceEpoch: seconds).secondsSinceEpoch, equals: seconds)
            expect(HTTPDate.parse(rendered(seconds)), equals: WallTime(seconds: seconds))
        }
    }

    @Test("Leap seconds and days after the end of a month count on")
    func overflow() {
        let leapSecond = CivilDate(year: 2016, month: 12, day: 31, hour: 23, minute: 59, second: 60)
        expect(leapSecond.secondsSinceEpoch, equals: CivilDate(year: 2017, month: 1, day: 1).secondsSinceEpoch)
        let noSuchDay = CivilDate(year: 2023, month: 2, day: 31)
        expect(noSuchDay.secondsSinceEpoch, equals: CivilDate(year: 2023, month: 3, day: 3).secondsSinceEpoch)
    }
}
