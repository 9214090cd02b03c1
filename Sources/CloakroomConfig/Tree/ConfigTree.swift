import CloakroomCore

/// A configuration file as keys and values, each with its place: what the reader looks values up in.
///
/// Items of a list are keyed by their index: `routes`, `0`, `path`.
struct YAMLTree: Sendable, Equatable, Unprintable {
    /// What stands under a key.
    enum Shape: Sendable, Equatable, Unprintable {
        /// Nothing: `key:` with no value.
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
        /// Where the key stands; for an item of a list, where the item begins.
        let key: FilePosition
        /// Where the value begins.
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
