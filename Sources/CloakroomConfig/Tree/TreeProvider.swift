import CloakroomCore
import Configuration

/// Lets the reader look values up in a ``ConfigTree``.
///
/// Besides what is written in the file there are two keys that no file has: `#count` below a list gives the number of
/// its items, `#names` below a mapping gives its keys.
struct TreeProvider: FixedProvider, Unprintable {
    static let count = "#count"
    static let names = "#names"

    let providerName = "configuration file"
    let tree: ConfigTree

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        LookupResult(
            encodedKey: key.components.joined(separator: "."),
            value: try content(at: key.components, type: type).map { ConfigValue($0, isSecret: false) })
    }

    private func content(at path: [String], type: ConfigType) throws(Mistake) -> ConfigContent? {
        switch path.last {
        case Self.count?: return try count(of: Array(path.dropLast())).map { .string(String($0)) }
        case Self.names?: return try names(in: Array(path.dropLast())).map { .stringArray($0) }
        default: break
        }
        guard let entry = tree[path] else { return nil }
        switch (type, entry.shape) {
        case (_, .empty): throw Mistake("has no value", "write one, or leave the key out")
        case (.stringArray, .list(let count)):
            return .stringArray(try (0..<count).map { index throws(Mistake) in try item(index, of: path) })
        case (.stringArray, .scalar(let text)):
            // A secret is not repeated.
            let example = SecretFilesProvider.isSecret(path) ? "one, another" : Printable.escaped(text)
            throw Mistake("expects a list", "write [\(example)]")
        case (.stringArray, .section): throw Mistake("expects a list, not keys", "write [one, another]")
        case (_, .scalar(let text)): return .string(text)
        case (_, .list): throw Mistake("expects one value, not a list", "write a single value")
        case (_, .section): throw Mistake("expects one value, not keys", "write a single value")
        }
    }

    private func item(_ index: Int, of path: [String]) throws(Mistake) -> String {
        guard case .scalar(let text)? = tree[path + [String(index)]]?.shape else {
            throw Mistake("item \(index + 1) of the list is not a single value", "write [one, another]")
        }
        return text
    }

    private func count(of path: [String]) throws(Mistake) -> Int? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .list(let count)?: return count
        case .scalar?, .section?:
            throw Mistake("expects a list", "begin each item with \"- \" below the key")
        }
    }

    private func names(in path: [String]) throws(Mistake) -> [String]? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .section(let names)?: return names
        case .scalar?, .list?: throw Mistake("expects a mapping", "write a name and a colon for each item")
        }
    }
}
