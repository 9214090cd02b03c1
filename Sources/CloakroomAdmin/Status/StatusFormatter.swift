import Foundation

/// Formats the numbers of alerts, independent of the locale. The page formats its own numbers.
enum StatusFormatter {
    /// `12 345`, grouped by a narrow no-break space.
    static func whole(_ number: UInt64) -> String {
        let digits = Array(String(number))
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text.append("\u{202F}") }
            text.append(digit)
        }
        return text
    }

    /// `1 day`, `3 days`.
    static func count(_ number: Int64, _ one: String, _ many: String? = nil) -> String {
        let sign = number < 0 ? "−" : ""
        return "\(sign)\(whole(number.magnitude)) \(number == 1 ? one : many ?? one + "s")"
    }

    /// A fraction as percentage: `0 %`, `< 0.1 %`, `2.5 %`, `100 %`. Only exactly 0 and 1 are rendered as 0 % and 100
    /// %.
    static func share(_ share: Double) -> String {
        let percent = share * 100
        return switch percent {
        case ...0: "0\u{202F}%"
        case ..<0.1: "<\u{202F}0.1\u{202F}%"
        case 100...: "100\u{202F}%"
        case ..<10: decimal(percent, 1) + "\u{202F}%"
        default: decimal(min(percent, 99.9), percent > 99 ? 1 : 0) + "\u{202F}%"
        }
    }

    private static func decimal(_ number: Double, _ digits: Int) -> String {
        String(format: "%.\(digits)f", locale: nil, number)
    }
}
