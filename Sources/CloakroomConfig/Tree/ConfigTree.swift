import CloakroomCore

/// The keys and values of a configuration file with their positions.
///
/// Items of a list are keyed by their index: `routes`, `0`, `path`.
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
