import Mustache

/// Escapes template values for HTML, in text and in quoted attributes.
///
/// The escaping of the library works on grapheme clusters, in which a quotation mark with a combining accent is not a
/// quotation mark. Browsers work on code points and would end the attribute there.
struct HTMLEscaping: MustacheContentType {
    /// The name for `CONTENT_TYPE` in templates; registered by ``register()``.
    static let name = "CLOAKROOM_HTML"

    static func register() {
        MustacheContentTypes.register(HTMLEscaping(), named: name)
    }

    func escapeText(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "&": result += "&amp;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            case "\n": result += "\n"
            default: result.unicodeScalars.append(Self.isReadable(scalar) ? scalar : "\u{FFFD}")
            }
        }
        return result
    }

    /// Control characters and bidirectional controls, which could disguise a line.
    private static func isReadable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069: false
        default: true
        }
    }
}
