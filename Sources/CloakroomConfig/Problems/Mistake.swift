/// An error in a value, before its location in the sources is known.
struct ConfigValueError: Error, Equatable {
    let message: String
    let suggestion: String

    init(_ message: String, _ suggestion: String) {
        self.message = message
        self.suggestion = suggestion
    }
}

/// Escapes text from a configuration for one line of a report.
enum DiagnosticText {
    /// The text in quotation marks, with control characters escaped, at most 80 characters.
    static func quoted(_ text: some StringProtocol) -> String {
        let text = escaped(text)
        return text.count > 80 ? "\"\(text.prefix(77))...\"" : "\"\(text)\""
    }

    /// The text with control characters written as `\u{…}`.
    static func escaped(_ text: some StringProtocol) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x00...0x1f, 0x7f...0x9f, 0x2028, 0x2029:
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
