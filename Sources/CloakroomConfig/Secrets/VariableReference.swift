/// A variable reference in place of a secret: `${MY_TOKEN}`, `$MY_TOKEN`, `$(MY_TOKEN)`, `%MY_TOKEN%` or `{{ … }}`.
/// References are not replaced; used literally, the secret would be guessable.
enum VariableReference {
    /// Whether the whole text is a reference, ignoring surrounding spaces.
    static func isOne(_ text: some StringProtocol) -> Bool {
        let text = KeyValueList.trimmed(Substring(text))
        for (start, end) in [("${", "}"), ("$(", ")"), ("{{", "}}"), ("<%", "%>")]
        where text.hasPrefix(start) && text.hasSuffix(end) && text.count >= start.count + end.count {
            return true
        }
        if text.count > 2, text.hasPrefix("%"), text.hasSuffix("%") { return isName(text.dropFirst().dropLast()) }
        // A password may begin with a dollar sign, so only upper-case names count.
        return text.hasPrefix("$") && isName(text.dropFirst()) && !text.contains(where: \.isLowercase)
    }

    /// Whether a text is a variable name (POSIX.1-2024, 3.216).
    private static func isName(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return text.utf8.allSatisfy { $0.isLetterOrDigit || $0 == UInt8(ascii: "_") }
    }
}
