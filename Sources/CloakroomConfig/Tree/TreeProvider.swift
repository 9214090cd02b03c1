import CloakroomCore
import Configuration

/// Lets the reader look values up in a ``YAMLTree``.
///
/// Besides what is written in the file there are two keys that no file has: `#count` below a list gives the number of
/// its items, `#names` below a mapping gives its keys.
struct YAMLProvider: StaticConfigProvider, Unprintable {
    static let count = "#count"
    static let names = "#names"

    let providerName = "configuration file"
    let tree: YAMLTree

    func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        LookupResult(
            encodedKey: key.components.joined(separator: "."),
            value: try content(at: key.components, type: type).map { ConfigValue($0, isSecret: false) })
    }

    private func content(at path: [String], type: ConfigType) throws(ConfigValueError) -> ConfigContent? {
        switch path.last {
        case Self.count?: return try count(of: Array(path.dropLast())).map { .string(String($0)) }
        case Self.names?: return try names(in: Array(path.dropLast())).map { .stringArray($0) }
        default: break
        }
        guard let entry = tree[path] else { return nil }
        switch (type, entry.shape) {
        case (_, .empty): throw ConfigValueError("has no value", "write one, or leave the key out")
        case (.stringArray, .list(let count)):
            return .stringArray(try (0..<count).map { index throws(ConfigValueError) in try item(index, of: path) })
        case (.stringArray, .scalar(let text)):
            // A secret is not repeated.
            let example = SecretFilesProvider.isSecret(path) ? "one, another" : DiagnosticText.escaped(text)
            throw ConfigValueError("expects a list", "write [\(example)]")
        case (.stringArray, .section): throw ConfigValueError("expects a list, not keys", "write [one, another]")
        case (_, .scalar(let text)): return .string(text)
        case (_, .list): throw ConfigValueError("expects one value, not a list", "write a single value")
        case (_, .section): throw ConfigValueError("expects one value, not keys", "write a single value")
        }
    }

    private func item(_ index: Int, of path: [String]) throws(ConfigValueError) -> String {
        guard case .scalar(let text)? = tree[path + [String(index)]]?.shape else {
            throw ConfigValueError("item \(index + 1) of the list is not a single value", "write [one, another]")
        }
        return text
    }

    private func count(of path: [String]) throws(ConfigValueError) -> Int? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .list(let count)?: return count
        case .scalar?, .section?:
            throw ConfigValueError("expects a list", "begin each item with \"- \" below the key")
        }
    }

    private func names(in path: [String]) throws(ConfigValueError) -> [String]? {
        switch tree[path]?.shape {
        case nil, .empty?: return nil
        case .section(let names)?: return names
        case .scalar?, .list?: throw ConfigValueError("expects a mapping", "write a name and a colon for each item")
        }
    }
}
