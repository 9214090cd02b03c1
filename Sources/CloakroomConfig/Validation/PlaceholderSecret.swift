import CloakroomCore

/// Publicly known secrets: those of the project's examples, and common placeholder words.
enum PlaceholderSecret {
    /// In lower case. ``isOne(_:)`` also matches them with digits or punctuation at either end.
    private static let words: Set<String> = [
        "admin", "change-me", "change_me", "changeit", "changeme", "default", "demo", "demo-api-token", "dummy",
        "example",
        "password", "placeholder", "replace", "replace-me", "replace_me", "replaceme", "secret", "test", "token",
        "todo",
        "your-api-token", "your-secret", "your-token", "xxx",
    ]

    /// The nouns that follow `your…` in placeholders.
    private static let kinds = ["changeme", "token", "secret", "password", "key"]
    /// The maximum number of characters around one of ``words`` for which the text is still a placeholder.
    private static let mostAround = 7

    /// Whether a secret is a placeholder or a repetition of one placeholder.
    static func isOne(_ secret: String) -> Bool {
        let text = secret.lowercased()
        if words.contains(text) { return true }
        let core = trimmed(text)
        // With more characters than a year or punctuation around the word, it may be a real secret.
        if words.contains(String(core)), text.count - core.count <= mostAround { return true }
        if text.count > 3, Set(text).count == 1 { return true }
        let letters = text.filter(\.isLetter)
        if letters.contains("changeme") || letters.hasPrefix("your"), kinds.contains(where: letters.contains) {
            return true
        }
        return words.contains { isRepetition(of: $0, text) }
    }

    /// The text without digits, spaces and punctuation at its ends.
    private static func trimmed(_ text: String) -> Substring {
        let start = text.drop { !$0.isLetter }
        return start.dropLast(start.reversed().prefix { !$0.isLetter }.count)
    }

    private static func isRepetition(of word: String, _ text: String) -> Bool {
        let parts = text.split { !$0.isLetter }
        if parts.count > 1, parts.allSatisfy({ $0 == word }) { return true }
        guard text.count > word.count, text.count % word.count == 0 else { return false }
        return text == String(repeating: word, count: text.count / word.count)
    }
}

/// Rejects publicly known secrets if other machines can connect.
enum PlaceholderRules {
    /// Reports each placeholder if a listener is reachable from other machines; for the admin token, also if the admin
    /// listener is. On loopback, placeholders are allowed for testing.
    static func check(_ reading: ConfigParser, listeners: [ListenerSection], admin: AdminSection) {
        let isExposed = listeners.contains { $0.address?.isLoopback == false }
        let isAdminExposed = admin.configuration?.address.isLoopback == false
        for path in reading.placeholders where isExposed || isAdminExposed && path == admin.scope.path + ["token"] {
            let suggestion =
                path.contains("apiToken")
                ? "write the token that the upstream issued"
                : path.contains("client")
                    ? "write the secret that the upstream issued" : "make one with openssl rand -base64 48"
            reading.report(
                ConfigValueError("must not be a published placeholder", "\(suggestion), or listen on loopback only"),
                at: path)
        }
    }
}

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
