import CloakroomWire

/// String literals in JSON documents.
public enum JSONString {
    /// A string in quotation marks, with escapes (RFC 8259 §7).
    public static func quoted(_ text: String) -> String {
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\u{0}"..."\u{1f}", "\u{7f}": result += "\\u00" + Byte.hexString([UInt8(scalar.value)])
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
