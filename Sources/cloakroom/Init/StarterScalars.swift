import Foundation

/// Values as scalars of YAML.
extension StarterConfiguration {
    /// Plain words of YAML 1.1 that are no text.
    private static let reserved: Set<String> = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]

    /// A value without quotes if every YAML parser reads it as the same text.
    static func scalar(_ text: String) -> String {
        let isPlain =
            text.wholeMatch(of: /[A-Za-z\/][A-Za-z0-9\/._-]*/) != nil && !reserved.contains(text.lowercased())
        return isPlain ? text : quoted(text)
    }

    /// An address as a plain scalar, as far as every YAML parser reads it as text.
    static func address(_ text: String) -> String {
        text.wholeMatch(of: /[A-Za-z0-9.\-]+:[0-9]+/) != nil ? text : quoted(text)
    }

    /// A text as a part of a comment.
    static func comment(_ text: String) -> String {
        String(text.unicodeScalars.filter { (0x20...0x7e).contains($0.value) })
    }

    /// A value in double quotes.
    static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\u{20}"..."\u{7e}", "\u{a0}"...: result.unicodeScalars.append(scalar)
            default:
                result +=
                    "\\u" + String(repeating: "0", count: max(0, 4 - String(scalar.value, radix: 16).count))
                    + String(scalar.value, radix: 16)
            }
        }
        return result + "\""
    }
}
