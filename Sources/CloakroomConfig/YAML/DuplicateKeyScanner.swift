import Yams

/// Parses documents with duplicate keys.
///
/// Yams rejects such a document and reports only one position. To report all errors in one run, the first character of
/// the earlier duplicate is replaced by a private-use character and the document is parsed again. The replacement is
/// one scalar for one, so positions are unchanged.
enum DuplicateKeyScanner {
    /// The duplicate keys that were renamed.
    struct DuplicateKeys {
        fileprivate var names: [FilePosition: String] = [:]

        /// Whether the key at this position is repeated later in its mapping.
        func isEarlier(at position: FilePosition) -> Bool {
            names[position] != nil
        }

        /// The keys repeated in a mapping, each with the position of its first occurrence.
        func firstPositions(in mapping: Node.Mapping) -> [String: FilePosition] {
            guard !names.isEmpty else { return [:] }
            var places: [String: FilePosition] = [:]
            for (key, _) in mapping {
                guard let mark = FilePosition(key.mark), let name = names[mark], places[name] == nil else { continue }
                places[name] = mark
            }
            return places
        }
    }

    /// The maximum number of duplicates to report; parsing stops at more.
    private static let maximum = 100

    /// Replaces each asterisk, so that aliases become words. One scalar for one, too.
    private static let alias = "\u{f8ff}"

    static func compose(_ yaml: String) throws(YAMLTree.YAMLSyntaxError) -> (Node?, DuplicateKeys) {
        var doubled = DuplicateKeys()
        var text = yaml
        while true {
            let failure: YamlError
            do {
                // Yams hashes the keys of a mapping, and a key of nested aliases has more nodes than can be visited.
                // Therefore the keys are checked in a document without aliases first.
                let words = text.replacing("*", with: alias)
                guard let root = try Yams.compose(yaml: words) else { return (nil, doubled) }
                guard let found = aliasInKey(of: root) else { return (try Yams.compose(yaml: text), doubled) }
                throw YAMLTree.YAMLSyntaxError(
                    position: FilePosition(found.mark), key: nil,
                    valueError: ConfigValueError("a key must be no alias and contain none", "write the key out"))
            } catch let error as YAMLTree.YAMLSyntaxError {
                throw error
            } catch let error as YamlError {
                failure = error
            } catch {
                throw YAMLTree.YAMLSyntaxError(
                    position: nil, key: nil,
                    valueError: ConfigValueError("the file must be valid YAML", "check it with a YAML linter"))
            }
            guard case .duplicatedKeysInMapping(var names, let context) = failure else {
                throw YAMLTree.YAMLSyntaxError(failure)
            }
            names = names.map { $0.replacing(alias, with: "*") }
            let position = FilePosition(line: context.mark.line, column: context.mark.column)
            guard doubled.names.count < maximum, doubled.names[position] == nil,
                let mask = Unicode.Scalar(0xe000 + UInt32(doubled.names.count)),
                let (changed, name) = renameDuplicate(keyAt: position, named: names, as: mask, in: text)
            else {
                throw YAMLTree.YAMLSyntaxError(
                    position: position, key: names.first,
                    valueError: ConfigValueError("conflicts with the same key in this mapping", "keep one of them"))
            }
            doubled.names[position] = name
            text = changed
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

    /// Replaces the first character of a key by an unused private-use character.
    private static func renameDuplicate(
        keyAt position: FilePosition, named names: [String], as mask: Unicode.Scalar, in yaml: String
    ) -> (String, String)? {
        var scalars = Array(yaml.unicodeScalars)
        guard var index = offset(of: position, in: scalars) else { return nil }
        if scalars[index] == "\"" || scalars[index] == "'" { index += 1 }
        let rest = scalars[index...]
        let isKey = { (name: String) in !name.isEmpty && rest.starts(with: name.unicodeScalars) }
        guard let name = names.filter(isKey).max(by: { $0.count < $1.count }) else { return nil }
        scalars[index] = mask
        var changed = String.UnicodeScalarView()
        changed.append(contentsOf: scalars)
        return (String(changed), name)
    }

    private static func offset(of position: FilePosition, in scalars: [Unicode.Scalar]) -> Int? {
        var line = 1
        var start = 0
        for (index, scalar) in scalars.enumerated() where line < position.line {
            // CRLF is one line break.
            let isBreak =
                scalar == "\n" || scalar == "\u{85}" || scalar == "\u{2028}" || scalar == "\u{2029}"
                || (scalar == "\r" && (index + 1 >= scalars.count || scalars[index + 1] != "\n"))
            if isBreak {
                line += 1
                start = index + 1
            }
        }
        let offset = start + position.column - 1
        return line == position.line && offset < scalars.count ? offset : nil
    }
}

extension YAMLTree.YAMLSyntaxError {
    /// The parser's error without its excerpt of the text, which may contain a secret.
    init(_ error: YamlError) {
        let position: FilePosition?
        let problem: String
        var remedy = "check indentation, colons and quotation marks"
        switch error {
        case .scanner(_, let text, let mark, let yaml), .parser(_, let text, let mark, let yaml),
            .composer(_, let text, let mark, let yaml):
            position = FilePosition(mark)
            problem = text
            let lines = yaml.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
            if lines.indices.contains(mark.line - 1),
                lines[mark.line - 1].prefix(while: \.isWhitespace).contains("\t")
            {
                remedy = "indent with spaces, not tabs"
            }
        case .reader(let text, let offset, _, let yaml):
            position = offset.map { FilePosition(of: $0, in: yaml) }
            problem = text
        default:
            position = nil
            problem = "it cannot be parsed"
        }
        self.init(
            position: position, key: nil,
            valueError: ConfigValueError(
                "the file must be valid YAML: \(problem)", remedy)
        )
    }
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
