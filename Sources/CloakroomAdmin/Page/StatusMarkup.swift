import Mustache

/// Escapes what a template is given for HTML, in text and in quoted attributes.
///
/// The library's own escaping goes by characters as people see them, in which a quotation mark with an accent on top is
/// one that is not a quotation mark. A browser goes by code points and would see the attribute end there.
struct HTMLEscaping: MustacheContentType {
    /// What templates name in `CONTENT_TYPE`; it is there once ``register()`` was called.
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

    /// Controls are no text, and marks that turn the direction of writing make lines say what they do not.
    private static func isReadable(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069: false
        default: true
        }
    }
}
