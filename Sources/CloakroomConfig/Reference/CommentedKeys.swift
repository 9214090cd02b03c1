/// The comments of the example configuration file by key.
///
/// A comment is the lines that begin with `# ` directly above a key. The key itself may be commented out with one `#`.
struct YAMLKeyComments {
    /// Dotted keys without list indices; all upstream names are `NAME`.
    private(set) var comments: [String: String] = [:]

    init(yaml: String) {
        var stack: [(indent: Int, name: String)] = []
        var comment: [Substring] = []
        for line in yaml.split(separator: "\n", omittingEmptySubsequences: false) {
            var text = line.drop { $0 == " " }
            var indent = line.count - text.count
            if text.hasPrefix("# ") {
                comment.append(text.dropFirst(2))
                continue
            }
            defer { comment = [] }
            if text.hasPrefix("#") { text = text.dropFirst() }
            if text.hasPrefix("- ") {
                text = text.dropFirst(2)
                indent += 2
            }
            guard let colon = text.firstIndex(of: ":"), text[..<colon].allSatisfy(Self.isNameCharacter) else {
                continue
            }
            stack.removeAll { $0.indent >= indent }
            stack.append((indent, String(text[..<colon])))
            var names = stack.map(\.name)
            if names.first == "upstreams", names.count > 1 { names[1] = "NAME" }
            let key = names.joined(separator: ".")
            // If a list has several items, the comment of the first applies.
            if comments[key] == nil, !comment.isEmpty { comments[key] = comment.joined(separator: " ") }
        }
    }

    subscript(path: [String]) -> String? { comments[path.joined(separator: ".")] }

    private static func isNameCharacter(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "-"
    }
}
