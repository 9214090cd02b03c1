import Yams

/// Reads documents in which keys stand twice.
///
/// Yams refuses such a document as a whole and names one place only. All mistakes are wanted in one run, so the earlier
/// of two equal keys gets a first character that no key has (one for one, so that no place moves) and the document is
/// read again.
enum DuplicateKeyScanner {
    /// The keys that were made unequal.
    struct DuplicateKeys {
        fileprivate var names: [FilePosition: String] = [:]

        /// Whether a key that stands there is repeated further down in its mapping.
        func isEarlier(at position: FilePosition) -> Bool {
            names[position] != nil
        }

        /// The keys of a mapping that are repeated in it, and where each stands first.
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

    /// Beyond this many a file is not worth reading on.
    private static let maximum = 100

    static func compose(_ yaml: String) throws(YAMLTree.YAMLSyntaxError) -> (Node?, DuplicateKeys) {
        var doubled = DuplicateKeys()
        var text = yaml
        while true {
            let failure: YamlError
            do {
                return (try Yams.compose(yaml: text), doubled)
            } catch let error as YamlError {
                failure = error
            } catch {
                throw YAMLTree.YAMLSyntaxError(
                    position: nil, key: nil,
                    valueError: ConfigValueError("the file is no YAML", "check it with a YAML linter"))
            }
            guard case .duplicatedKeysInMapping(let names, let context) = failure else {
                throw YAMLTree.YAMLSyntaxError(failure)
            }
            let position = FilePosition(line: context.mark.line, column: context.mark.column)
            guard doubled.names.count < maximum, doubled.names[position] == nil,
                let mask = Unicode.Scalar(0xe000 + UInt32(doubled.names.count)),
                let (changed, name) = renameDuplicate(keyAt: position, named: names, as: mask, in: text)
            else {
                throw YAMLTree.YAMLSyntaxError(
                    position: position, key: names.first,
                    valueError: ConfigValueError("stands twice in one mapping", "keep one of them"))
            }
            doubled.names[position] = name
            text = changed
        }
    }

    /// Replaces the first character of a key by one from the private use area that no other key got.
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
            // A carriage return before a line feed belongs to the same break.
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
    /// What the parser says, without the snippet of the text that it adds: a secret may stand there.
    init(_ error: YamlError) {
        let position: FilePosition?
        let problem: String
        switch error {
        case .scanner(_, let text, let mark, _), .parser(_, let text, let mark, _), .composer(_, let text, let mark, _):
            position = FilePosition(mark)
            problem = text
        case .reader(let text, let offset, _, let yaml):
            position = offset.map { FilePosition(of: $0, in: yaml) }
            problem = text
        default:
            position = nil
            problem = "it cannot be read"
        }
        self.init(
            position: position, key: nil,
            valueError: ConfigValueError(
                "the file is no YAML: \(problem)", "check indentation, colons and quotation marks"))
    }
}

extension FilePosition {
    /// The place of a character that is the given number of characters away from the beginning.
    fileprivate init(of offset: Int, in text: String) {
        let before = text.prefix(offset)
        let line = before.lazy.filter(\.isNewline).count + 1
        let start = before.lastIndex(where: \.isNewline).map { text.index(after: $0) } ?? text.startIndex
        self.init(line: line, column: text.unicodeScalars.distance(from: start, to: before.endIndex) + 1)
    }
}
