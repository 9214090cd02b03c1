import CloakroomCore
import Foundation

/// Formats numbers and times for the status page, independent of the locale.
enum StatusFormatter {
    /// The placeholder for unknown values.
    static let unknown = "–"

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

    /// Per second: `0`, `0.02`, `3.4`, `120`.
    static func rate(_ perSecond: Double) -> String {
        switch perSecond {
        case ...0: "0"
        case ..<0.01: "< 0.01"
        case ..<1: decimal(perSecond, 2)
        case ..<100: decimal(perSecond, 1)
        default: whole(UInt64(exactly: perSecond.rounded()) ?? .max)
        }
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

    /// `0.4 ms`, `12 ms`, `1.25 s`.
    static func milliseconds(_ milliseconds: Double) -> String {
        switch milliseconds {
        case ..<10: decimal(milliseconds, 1) + "\u{202F}ms"
        case ..<1_000: decimal(milliseconds, 0) + "\u{202F}ms"
        default: decimal(milliseconds / 1_000, milliseconds < 10_000 ? 2 : 0) + "\u{202F}s"
        }
    }

    /// The two largest units: `3 d 4 h`, `12 min 5 s`, `8 s`.
    static func duration(seconds: Int64) -> String {
        let seconds = max(seconds, 0)
        let parts: [(Int64, String)] = [
            (seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s"),
        ]
        guard let first = parts.firstIndex(where: { $0.0 > 0 }) else { return "0\u{202F}s" }
        return parts[first..<min(first + 2, parts.count)].filter { $0.0 > 0 }
            .map { "\($0.0)\u{202F}\($0.1)" }.joined(separator: " ")
    }

    /// ISO 8601 in UTC, whole seconds.
    static func time(_ time: Timestamp) -> String {
        Date(timeIntervalSince1970: Double(time.milliseconds) / 1_000).formatted(.iso8601)
    }

    /// The output of ``time(_:)`` for display: `2026-11-21 11:20:05 UTC`.
    static func readable(_ time: String) -> String {
        time.replacing("T", with: " ").replacing("Z", with: " UTC")
    }

    /// `refresh_rejected` as `refresh rejected`.
    static func words(_ name: String) -> String { name.replacing("_", with: " ") }

    private static func decimal(_ number: Double, _ digits: Int) -> String {
        String(format: "%.\(digits)f", locale: nil, number)
    }
}
