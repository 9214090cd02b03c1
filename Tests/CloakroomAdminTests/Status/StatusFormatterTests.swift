import CloakroomCore
import Testing

@testable import CloakroomAdmin

@Suite("Numbers and times of the status page")
struct StatusFormatterTests {
    @Test(
        "Whole numbers are grouped",
        arguments: [(0, "0"), (999, "999"), (1_000, "1\u{202F}000"), (1_234_567, "1\u{202F}234\u{202F}567")])
    func whole(number: UInt64, text: String) {
        #expect(StatusFormatter.whole(number) == text)
    }

    @Test(
        "Rates are rounded to significant digits",
        arguments: [
            (0, "0"), (0.001, "< 0.01"), (0.25, "0.25"), (3.44, "3.4"), (120.4, "120"), (12_345, "12\u{202F}345"),
        ])
    func rate(perSecond: Double, text: String) {
        #expect(StatusFormatter.rate(perSecond) == text)
    }

    @Test(
        "Only exact values are shown as 0 % or 100 %",
        arguments: [(0, "0"), (0.0001, "<\u{202F}0.1"), (0.025, "2.5"), (0.33, "33"), (0.9999, "99.9"), (1, "100")])
    func share(share: Double, text: String) {
        #expect(StatusFormatter.share(share) == text + "\u{202F}%")
    }

    @Test(
        "Durations have a suitable unit",
        arguments: [(0.42, "0.4\u{202F}ms"), (37.5, "38\u{202F}ms"), (1_250, "1.25\u{202F}s"), (10_000, "10\u{202F}s")])
    func milliseconds(milliseconds: Double, text: String) {
        #expect(StatusFormatter.milliseconds(milliseconds) == text)
    }

    @Test(
        "Long durations have their two largest units",
        arguments: [
            (-3, "0\u{202F}s"), (59, "59\u{202F}s"), (60, "1\u{202F}min"), (125, "2\u{202F}min 5\u{202F}s"),
            (90_061, "1\u{202F}d 1\u{202F}h"),
        ])
    func duration(seconds: Int64, text: String) {
        #expect(StatusFormatter.duration(seconds: seconds) == text)
    }

    @Test("Times are ISO 8601 in UTC, and readable")
    func time() {
        let text = StatusFormatter.time(Timestamp(milliseconds: 1_795_260_076_970))
        #expect(text == "2026-11-21T11:21:16Z")
        #expect(StatusFormatter.readable(text) == "2026-11-21 11:21:16 UTC")
    }

    @Test("Counts agree in number with their noun")
    func counts() {
        #expect(StatusFormatter.count(1, "day") == "1 day")
        #expect(StatusFormatter.count(0, "day") == "0 days")
        #expect(StatusFormatter.count(2, "token refresh", "token refreshes") == "2 token refreshes")
    }
}
