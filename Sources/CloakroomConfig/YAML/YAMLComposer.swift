import Yams

/// Parses documents into nodes. If a mapping has keys twice, one of them is reported, as by Yams.
enum YAMLComposer {
    /// The maximum nesting of all values with those of their aliases, as far as it is known before they are replaced.
    private static let maximumDepth = 10_000

    private static func depth(of node: Node) -> Int {
        switch node {
        case .mapping(let mapping): (mapping.map { max(depth(of: $0), depth(of: $1)) }.max() ?? 0) + 1
        case .sequence(let sequence): (sequence.map { depth(of: $0) }.max() ?? 0) + 1
        case .scalar, .alias: 1
        }
    }

    /// Replaces each asterisk, so that aliases become words. One scalar for one, so that positions are unchanged.
    private static let alias = "\u{f8ff}"

    static func compose(_ yaml: String) throws(YAMLTree.YAMLSyntaxError) -> Node? {
        do {
            // Yams hashes the keys of a mapping, and a key of nested aliases has more nodes than can be visited.
            // Therefore the keys are checked in a document without aliases first.
            let words = yaml.replacing("*", with: alias)
            guard let root = try Yams.compose(yaml: words) else { return nil }
            guard let found = aliasInKey(of: root) else {
                // A value of an alias may contain aliases, and what visits or releases the nodes recurses.
                let links = min(
                    yaml.utf8.count { $0 == UInt8(ascii: "&") }, yaml.utf8.count { $0 == UInt8(ascii: "*") })
                guard depth(of: root) * (links + 1) <= maximumDepth else { throw YAMLTree.tooDeep(nil) }
                return try Yams.compose(yaml: yaml)
            }
            throw YAMLTree.YAMLSyntaxError(
                "a key must be no alias and contain none", "write the key out", at: FilePosition(found.mark))
        } catch let error as YAMLTree.YAMLSyntaxError {
            throw error
        } catch YamlError.duplicatedKeysInMapping(let names, let context) {
            throw YAMLTree.YAMLSyntaxError(
                "conflicts with the same key in this mapping", "keep one of them", at: FilePosition(context.mark),
                key: names.first?.replacing(alias, with: "*"))
        } catch let error as YamlError {
            throw YAMLTree.YAMLSyntaxError(error)
        } catch {
            throw YAMLTree.YAMLSyntaxError("the file must be valid YAML", "check it with a YAML linter", at: nil)
        }
    }

    /// The alias in a key, or the key that is one.
    private static func aliasInKey(of node: Node, isKey: Bool = false) -> Node? {
        switch node {
        case .mapping(let mapping):
            for (key, value) in mapping {
                if let found = aliasInKey(of: key, isKey: true) ?? aliasInKey(of: value, isKey: isKey) { return found }
            }
            return nil
        case .sequence(let sequence):
            for item in sequence { if let found = aliasInKey(of: item, isKey: isKey) { return found } }
            return nil
        case .scalar(let scalar):
            // No other plain scalar begins with an asterisk. Without it the pair `[*a:b]` is one word.
            guard scalar.style == .plain, scalar.string.hasPrefix(alias) else { return nil }
            return isKey || scalar.string.contains(":") ? node : nil
        case .alias: return node
        }
    }
}

extension YAMLTree.YAMLSyntaxError {
    /// The parser's error without its excerpt of the text, which may contain a secret.
    init(_ error: YamlError) {
        let position: FilePosition?
        let problem: String
        var remedy = "check indentation, colons and quotation marks"
        switch error {
        case .scanner(let context?, _, _, _) where context.text == "while scanning a quoted scalar":
            // The end of the file is far from the mistake.
            position = FilePosition(context.mark)
            problem = "a quotation mark has no counterpart"
            remedy = "end the text with the same quotation mark"
        case .scanner(let context?, _, _, _) where context.text == "while scanning a simple key":
            // The next line is reported otherwise.
            position = FilePosition(context.mark)
            problem = "a key has no colon with a blank after it"
            remedy = "write it as key: value"
        case .scanner(let context, let text, let mark, let yaml), .parser(let context, let text, let mark, let yaml),
            .composer(let context, let text, let mark, let yaml):
            if let context, context.text.hasPrefix("while parsing a flow ") {
                let (kind, end) = context.text.hasSuffix("sequence") ? ("list", "]") : ("section", "}")
                position = FilePosition(context.mark)
                problem = "the \(kind) has no \(end) at its end, or no comma before \(mark.line):\(mark.column)"
                remedy = "write commas between items, and \(end) after the last one"
            } else {
                position = FilePosition(mark)
                (problem, remedy) = Self.plain[text] ?? (text, remedy)
            }
            let lines = yaml.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            if lines.indices.contains(mark.line - 1),
                lines[mark.line - 1].prefix(while: \.isWhitespace).contains("\t")
            {
                remedy = "indent with spaces, not tabs"
            } else if lines.indices.contains(mark.line - 1), lines[mark.line - 1].contains("[*]") {
                remedy = "list methods, such as [GET, POST], and write other names with * in quotation marks"
            } else if lines.indices.contains(mark.line - 1),
                ["/{", "}/", "*."].contains(where: lines[mark.line - 1].contains)
            {
                remedy += #"; write paths with {} in a list, and names with *, as "/videos/{id}" and "*.example.com""#
            }
        case .reader(let text, let offset, _, let yaml):
            position = offset.map { FilePosition(of: $0, in: yaml) }
            problem = text
            if text.contains("control characters") { remedy = "remove the character" }
        default:
            position = nil
            problem = "it cannot be parsed"
        }
        self.init("the file must be valid YAML: \(problem)", remedy, at: position)
    }

    /// The parser's messages that name its own state, in words of the file.
    private static let plain = [
        "did not find expected '-' indicator": (
            "the line belongs to no item of the list",
            "begin an item with - or indent the line like the keys of its item"
        ),
        "did not find expected key": (
            "the line belongs to no section", "indent the keys of a section alike, and what is below them further"
        ),
        "mapping values are not allowed in this context": (
            "a key is not possible here",
            "indent the keys of a section alike, and write text with a colon in quotation marks"
        ),
        "found character that cannot start any token": (
            "a value cannot begin with this character", "write it in quotation marks"
        ),
        "found undefined alias": ("the name after * is not defined", "write the value out, or in quotation marks"),
        "but found another document": ("there must be one document", "remove the line ---"),
    ]
}

extension FilePosition {
    /// The position of the character at an offset, in characters, from the start of the text.
    fileprivate init(of offset: Int, in text: String) {
        let before = text.prefix(offset)
        let line = before.lazy.filter(\.isNewline).count + 1
        let start = before.lastIndex(where: \.isNewline).map { text.index(after: $0) } ?? text.startIndex
        self.init(line: line, column: text.unicodeScalars.distance(from: start, to: before.endIndex) + 1)
    }
}
