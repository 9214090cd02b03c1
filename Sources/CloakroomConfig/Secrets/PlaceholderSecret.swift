/// Secrets that everybody can know: those of the examples that come with the project, and the words that people write
/// where a secret has yet to come.
enum PlaceholderSecret {
    /// In lower case. ``isOne(_:)`` finds these also with digits or punctuation at their ends.
    private static let words: Set<String> = [
        "admin", "change-me", "change_me", "changeit", "changeme", "default", "demo", "demo-api-token", "dummy",
        "example",
        "password", "placeholder", "replace", "replace-me", "replace_me", "replaceme", "secret", "test", "token",
        "todo",
        "your-api-token", "your-secret", "your-token", "xxx",
    ]

    /// What `your…` stands for in an example.
    private static let kinds = ["changeme", "token", "secret", "password", "key"]
    /// The most characters around a word of ``words`` that make no secret of it.
    private static let mostAround = 7

    /// Whether a secret is a placeholder, or nothing but one placeholder again and again, as people lengthen one that is
    /// too short.
    static func isOne(_ secret: String) -> Bool {
        let text = secret.lowercased()
        if words.contains(text) { return true }
        let core = trimmed(text)
        // More around a word than a year or a few marks may be a secret after all.
        if words.contains(String(core)), text.count - core.count <= mostAround { return true }
        if text.count > 3, Set(text).count == 1 { return true }
        let letters = text.filter(\.isLetter)
        if letters.contains("changeme") || letters.hasPrefix("your"), kinds.contains(where: letters.contains) {
            return true
        }
        return words.contains { isRepetition(of: $0, text) }
    }

    /// The text without digits, blanks and punctuation at its ends.
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
