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
