import Yams

extension ConfigTree {
    /// More entries than any configuration has; a document whose aliases multiply ends here.
    private static let maximumEntries = 200_000

    /// A mistake that belongs to a place in the file and not to a value.
    struct SyntaxMistake: Error, Equatable {
        let position: Position?
        let key: String?
        let mistake: Mistake
    }

    /// Reads a YAML document.
    /// - Parameter complain: Gets what does not keep the rest from being read: keys that stand twice, keys that are no text.
    /// - Throws: ``SyntaxMistake`` if the text is no YAML document whose top is a mapping.
    init(yaml: String, complain: (SyntaxMistake) -> Void) throws(SyntaxMistake) {
        self.init()
        let (root, doubled) = try UniqueKeys.compose(yaml)
        guard let root else { return }
        var flattening = Flattening(doubled: doubled, tree: self)
        switch root {
        case .mapping(let mapping):
            try flattening.add(mapping, at: [], complain: complain)
        case .scalar where root.isEmptyScalar:
            return
        case .scalar, .sequence, .alias:
            throw SyntaxMistake(
                position: Position(root.mark), key: nil,
                mistake: Mistake("the file is not a mapping of keys", "begin with a key such as \"listeners:\""))
        }
        self = flattening.tree
    }

    private struct Flattening {
        let doubled: UniqueKeys.Doubled
        var tree: ConfigTree

        mutating func add(
            _ mapping: Node.Mapping, at path: [String], complain: (SyntaxMistake) -> Void
        ) throws(SyntaxMistake) {
            let firstPlaces = doubled.firstPlaces(in: mapping)
            for (keyNode, value) in mapping {
                let place = Position(keyNode.mark) ?? Position(line: 1, column: 1)
                guard case .scalar(let scalar) = keyNode else {
                    complain(
                        SyntaxMistake(
                            position: place, key: ConfigTree.name(path),
                            mistake: Mistake("a key is a list or a mapping", "write a plain word before the colon")))
                    continue
                }
                if doubled.isEarlier(at: place) { continue }
                let keyPath = path + [scalar.string]
                if scalar.string == "<<" {
                    complain(
                        SyntaxMistake(
                            position: place, key: ConfigTree.name(keyPath),
                            mistake: Mistake("merge keys are not supported", "write the keys out")))
                    continue
                }
                if let first = firstPlaces[scalar.string] {
                    complain(
                        SyntaxMistake(
                            position: place, key: ConfigTree.name(keyPath),
                            mistake: Mistake("stands twice, first on line \(first.line)", "keep one of them")))
                }
                try add(value, key: place, at: keyPath, complain: complain)
            }
        }

        private mutating func add(
            _ node: Node, key: Position, at path: [String], complain: (SyntaxMistake) -> Void
        ) throws(SyntaxMistake) {
            guard tree.order.count < ConfigTree.maximumEntries else {
                throw SyntaxMistake(
                    position: key, key: nil, mistake: Mistake("the file has too many entries", "use fewer aliases"))
            }
            let value = Position(node.mark) ?? key
            switch node {
            case .scalar(let scalar):
                let shape: Shape = node.isEmptyScalar ? .empty : .scalar(scalar.string)
                tree.insert(Entry(key: key, value: value, shape: shape), at: path)
            case .sequence(let sequence):
                tree.insert(Entry(key: key, value: value, shape: .list(count: sequence.count)), at: path)
                for (index, item) in sequence.enumerated() {
                    try add(item, key: Position(item.mark) ?? value, at: path + [String(index)], complain: complain)
                }
            case .mapping(let mapping):
                var names: [String] = []
                for (name, _) in mapping {
                    guard let text = name.scalar?.string, let mark = Position(name.mark) else { continue }
                    if !doubled.isEarlier(at: mark) { names.append(text) }
                }
                tree.insert(Entry(key: key, value: value, shape: .section(names)), at: path)
                try add(mapping, at: path, complain: complain)
            case .alias:
                // The parser puts the node itself in the place of an alias.
                return
            }
        }
    }

    /// The key as messages write it; `nil` for the top of the file.
    private static func name(_ path: [String]) -> String? {
        path.isEmpty ? nil : path.joined(separator: ".")
    }
}

extension Position {
    init?(_ mark: Mark?) {
        guard let mark else { return nil }
        self.init(line: mark.line, column: mark.column)
    }
}

extension Node {
    /// Whether nothing is written, or `~` or `null`.
    fileprivate var isEmptyScalar: Bool {
        guard case .scalar(let scalar) = self, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }
}
