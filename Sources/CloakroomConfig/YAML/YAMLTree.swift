import CloakroomCore
import Yams

/// The keys and values of a configuration file with their positions.
///
/// Items of a list are keyed by their index: `routes`, `0`, `path`.
///
/// Folder `YAML/`: the keys of the file with their lines and columns; rejects duplicate keys.
struct YAMLTree: Sendable, Equatable, Unprintable {
    /// The kind of value of a key.
    enum Shape: Sendable, Equatable, Unprintable {
        /// No value: `key:`.
        case empty
        /// One value, as written.
        case scalar(String)
        /// A list; its items are entries of their own.
        case list(count: Int)
        /// A mapping with these keys, in the order of the file.
        case section([String])
    }

    /// One key of the file.
    struct Entry: Sendable, Equatable, Unprintable {
        /// The position of the key; for a list item, the start of the item.
        let key: FilePosition
        /// The start of the value.
        let value: FilePosition
        let shape: Shape
    }

    private(set) var entries: [[String]: Entry] = [:]
    /// The keys in the order of the file.
    private(set) var order: [[String]] = []

    subscript(path: [String]) -> Entry? { entries[path] }

    mutating func insert(_ entry: Entry, at path: [String]) {
        if entries.updateValue(entry, forKey: path) == nil { order.append(path) }
    }
}

extension YAMLTree {
    /// The maximum number of entries; bounds the expansion of aliases.
    private static let maximumEntries = 200_000
    /// The maximum nesting of values; no key is nested more than ten deep.
    private static let maximumDepth = 32

    static func tooDeep(_ position: FilePosition?) -> YAMLSyntaxError {
        YAMLSyntaxError("values must be nested at most 32 deep", "use fewer levels and aliases", at: position)
    }

    /// An error at a location in the file rather than in a value.
    struct YAMLSyntaxError: Error, Equatable {
        let position: FilePosition?
        let key: String?
        let valueError: ConfigValueError

        init(_ message: String, _ suggestion: String, at position: FilePosition?, key: String? = nil) {
            (self.position, self.key) = (position, key)
            valueError = ConfigValueError(message, suggestion)
        }
    }

    /// Reads a YAML document.
    /// - Parameter report: Receives errors that do not stop parsing: keys that are not text.
    /// - Throws: ``YAMLSyntaxError`` if the text is not a YAML document with a mapping at its top level.
    init(yaml: String, report: (YAMLSyntaxError) -> Void) throws(YAMLSyntaxError) {
        self.init()
        guard let root = try YAMLComposer.compose(yaml) else { return }
        var flattening = Flattener(tree: self)
        switch root {
        case .mapping(let mapping):
            try flattening.add(mapping, at: [], report: report)
        case .scalar where root.isEmptyScalar:
            return
        case .scalar, .sequence, .alias:
            throw YAMLSyntaxError(
                "the file must be a mapping of keys", "begin with a key such as \"listeners:\"",
                at: FilePosition(root.mark))
        }
        self = flattening.tree
    }

    private struct Flattener {
        var tree: YAMLTree

        mutating func add(
            _ mapping: Node.Mapping, at path: [String], report: (YAMLSyntaxError) -> Void
        ) throws(YAMLSyntaxError) {
            for (keyNode, value) in mapping {
                let place = FilePosition(keyNode.mark) ?? FilePosition(line: 1, column: 1)
                guard case .scalar(let scalar) = keyNode else {
                    report(
                        YAMLSyntaxError(
                            "must be a plain word as key, not a list or a mapping",
                            "write a plain word before the colon", at: place, key: YAMLTree.name(path)))
                    continue
                }
                let keyPath = path + [scalar.string]
                if scalar.string == "<<" {
                    report(
                        YAMLSyntaxError(
                            "merge keys are not supported", "write the keys out", at: place,
                            key: YAMLTree.name(keyPath)))
                    continue
                }
                try add(value, key: place, at: keyPath, report: report)
            }
        }

        private mutating func add(
            _ node: Node, key: FilePosition, at path: [String], report: (YAMLSyntaxError) -> Void
        ) throws(YAMLSyntaxError) {
            guard tree.order.count < YAMLTree.maximumEntries else {
                throw YAMLSyntaxError("the file must have at most 200,000 entries", "use fewer aliases", at: key)
            }
            guard path.count <= YAMLTree.maximumDepth else { throw YAMLTree.tooDeep(key) }
            let value = FilePosition(node.mark) ?? key
            switch node {
            case .scalar(let scalar):
                let shape: Shape = node.isEmptyScalar ? .empty : .scalar(scalar.string)
                tree.insert(Entry(key: key, value: value, shape: shape), at: path)
            case .sequence(let sequence):
                tree.insert(Entry(key: key, value: value, shape: .list(count: sequence.count)), at: path)
                for (index, item) in sequence.enumerated() {
                    try add(item, key: FilePosition(item.mark) ?? value, at: path + [String(index)], report: report)
                }
            case .mapping(let mapping):
                let names = mapping.compactMap { $0.key.scalar?.string }
                tree.insert(Entry(key: key, value: value, shape: .section(names)), at: path)
                try add(mapping, at: path, report: report)
            case .alias:
                // The parser replaces aliases by their nodes.
                return
            }
        }
    }

    /// The key path as printed in messages; `nil` for the top level of the file.
    private static func name(_ path: [String]) -> String? {
        path.isEmpty ? nil : path.joined(separator: ".")
    }
}

extension FilePosition {
    init?(_ mark: Mark?) {
        guard let mark else { return nil }
        self.init(line: mark.line, column: mark.column)
    }
}

extension Node {
    /// Whether the scalar is empty, `~` or `null`.
    fileprivate var isEmptyScalar: Bool {
        guard case .scalar(let scalar) = self, scalar.style == .plain || scalar.style == .any else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
    }
}

/// Parses the keys and values of a configuration file without validating them; used by the fuzzer to measure the time.
package enum ConfigWire {
    /// The number of entries of a YAML document; `nil` if it cannot be parsed.
    package static func entryCount(yaml: [UInt8]) -> Int? {
        guard let text = String(validating: yaml, as: UTF8.self) else { return nil }
        return try? YAMLTree(yaml: text) { _ in }.order.count
    }
}
