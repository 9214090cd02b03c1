/// A secret that was meant to be replaced before the gateway reads it: `${MY_TOKEN}`, `$MY_TOKEN`, `$(MY_TOKEN)`,
/// `%MY_TOKEN%` or `{{ … }}`. Nothing here replaces it, and taken literally it is a secret that anybody can guess.
enum VariableReference {
    /// Whether a whole text is a reference, with or without blanks around it.
    static func isOne(_ text: some StringProtocol) -> Bool {
        let text = KeyValueList.trimmed(Substring(text))
        for (start, end) in [("${", "}"), ("$(", ")"), ("{{", "}}"), ("<%", "%>")]
        where text.hasPrefix(start) && text.hasSuffix(end) && text.count >= start.count + end.count {
            return true
        }
        if text.count > 2, text.hasPrefix("%"), text.hasSuffix("%") { return isName(text.dropFirst().dropLast()) }
        // A password may begin with a dollar: only names as environments have them count.
        return text.hasPrefix("$") && isName(text.dropFirst()) && !text.contains(where: \.isLowercase)
    }

    /// Whether a text can name a variable (POSIX.1-2024, 3.216).
    private static func isName(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return text.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: "_") }
    }
}
