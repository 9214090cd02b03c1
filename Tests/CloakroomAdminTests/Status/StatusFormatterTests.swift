import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Numbers of alerts")
struct StatusFormatterTests {
    @Test(
        "Whole numbers are grouped",
        arguments: [(0, "0"), (999, "999"), (1_000, "1\u{202F}000"), (1_234_567, "1\u{202F}234\u{202F}567")])
    func whole(number: UInt64, text: String) {
        expect(StatusFormatter.whole(number), equals: text)
    }

    @Test(
        "Only exact values are shown as 0 % or 100 %",
        arguments: [(0, "0"), (0.0001, "<\u{202F}0.1"), (0.025, "2.5"), (0.33, "33"), (0.9999, "99.9"), (1, "100")])
    func share(share: Double, text: String) {
        expect(StatusFormatter.share(share), equals: text + "\u{202F}%")
    }

    @Test("Counts agree in number with their noun")
    func counts() {
        expect(StatusFormatter.count(1, "day"), equals: "1 day")
        expect(StatusFormatter.count(0, "day"), equals: "0 days")
        expect(StatusFormatter.count(2, "token refresh", "token refreshes"), equals: "2 token refreshes")
    }
}
